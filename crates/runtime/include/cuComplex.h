// CUDA's complex numbers of its C interface, as libraries' headers include them.
// cuComplex.h of the CUDA Toolkit. Quotients and magnitudes are scaled, so that neither overflows on the way.
#pragma once

#include <cuda_runtime.h>

#define REPLAY_COMPLEX(Complex, Pair, T, suffix)                                              \
  typedef Pair Complex;                                                                       \
  __device__ inline T cuCreal##suffix(Complex z) { return z.x; }                              \
  __device__ inline T cuCimag##suffix(Complex z) { return z.y; }                              \
  __device__ inline Complex make_##Complex(T real, T imaginary) {                             \
    Complex z;                                                                                \
    z.x = real;                                                                               \
    z.y = imaginary;                                                                          \
    return z;                                                                                 \
  }                                                                                           \
  __device__ inline Complex cuConj##suffix(Complex z) { return make_##Complex(z.x, -z.y); }   \
  __device__ inline Complex cuCadd##suffix(Complex a, Complex b) {                            \
    return make_##Complex(a.x + b.x, a.y + b.y);                                              \
  }                                                                                           \
  __device__ inline Complex cuCsub##suffix(Complex a, Complex b) {                            \
    return make_##Complex(a.x - b.x, a.y - b.y);                                              \
  }                                                                                           \
  __device__ inline Complex cuCmul##suffix(Complex a, Complex b) {                            \
    return make_##Complex(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);                      \
  }                                                                                           \
  __device__ inline Complex cuCdiv##suffix(Complex a, Complex b) {                            \
    T scale = 1 / (fabs(b.x) + fabs(b.y));                                                    \
    Complex c = make_##Complex(a.x * scale, a.y * scale);                                     \
    Complex d = make_##Complex(b.x * scale, b.y * scale);                                     \
    T inverse = 1 / (d.x * d.x + d.y * d.y);                                                  \
    return make_##Complex((c.x * d.x + c.y * d.y) * inverse, (c.y * d.x - c.x * d.y) * inverse); \
  }                                                                                           \
  __device__ inline T cuCabs##suffix(Complex z) { return hypot(z.x, z.y); }                   \
  __device__ inline Complex cuCfma##suffix(Complex a, Complex b, Complex c) {                 \
    return cuCadd##suffix(cuCmul##suffix(a, b), c);                                           \
  }
REPLAY_COMPLEX(cuFloatComplex, float2, replay_rt::real, f)
REPLAY_COMPLEX(cuDoubleComplex, double2, double, )
#undef REPLAY_COMPLEX

typedef cuFloatComplex cuComplex;
__device__ inline cuFloatComplex make_cuComplex(replay_rt::real real, replay_rt::real imaginary) {
  return make_cuFloatComplex(real, imaginary);
}
__device__ inline cuDoubleComplex cuComplexFloatToDouble(cuFloatComplex z) {
  return make_cuDoubleComplex(z.x, z.y);
}
__device__ inline cuFloatComplex cuComplexDoubleToFloat(cuDoubleComplex z) {
  return make_cuFloatComplex((replay_rt::real)z.x, (replay_rt::real)z.y);
}
