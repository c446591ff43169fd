#include "float.h"
#include <cuda_fp16.h>
#define EPS 1e-5f
#define SQUARE(x) ((float)(x) * (x))
#define MY_EXP expf
__global__ void kern(float* x, const float4* y, __half* h, int n) {
  // float in a comment, 1.0f too
  const char* s = "float 1.0f expf";
  float a = 1.f + .5F + 1e5f + 0x1p-3f + 1'000.0f + 0x1f + 10 + 1.0 + 2.0L + 3u;
  a = fmaxf(expf(a), std::sqrt(a)) + std::powf(a, 2.f) + __expf(a) + fabsf(y[0].x) + FLT_MAX;
  extern __shared__ float s1[];
  __shared__ float s2[4];
  unsigned int bits = __float_as_uint(a);
  int i = *(int*)&a;
  a += __int_as_float(0x7f800000) + __half2float(__ushort_as_half((unsigned short)0x3c00)) + __int_as_float(i);
  int4 v = *reinterpret_cast<const int4*>(x);
  char* bytes = reinterpret_cast<char*>(x);
  union { float f; unsigned u; } pun;
  x[0] = a * (float)n + sizeof(float) + __half2float(h[0]) + s1[0] + s2[0] + bits + i + v.x + pun.u + *bytes + *s;
}
template <typename T> __global__ void typed(T* x) {}
void run(float* x) { typed<float><<<1, 32, 32 * sizeof(float)>>>(x); }
#if defined(ENABLE_BF16) && (__CUDACC_VER_MAJOR__ < 12) && !(__CUDA_ARCH__ >= 800)
__device__ __half __ldcs(const __half* at) { return *reinterpret_cast<const unsigned short*>(at); }
#elif __CUDA_ARCH__ < 700
__device__ int old(float* at) { return __float_as_int(*at); }
#else
__device__ int now(float* at) { return __float_as_int(*at); }
#endif
