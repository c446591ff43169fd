// Complex numbers of CUDA's C interface, of Thrust and of libcu++.
#include <cuComplex.h>
#include <cuda/std/complex>
#include <thrust/complex.h>

__global__ void numbers(float2* y, const float2* x, int n) {
  const int i = threadIdx.x;
  const float2 a = x[i], b = x[(i + 1) % n];
  y[i] = cuCdivf(cuCmulf(a, make_cuComplex(b.x, b.y)), cuCaddf(b, make_cuFloatComplex(3.0f, cuCabsf(a))));

  __shared__ thrust::complex<float> row[8];
  row[i] = thrust::complex<float>(a.x, a.y);
  __syncthreads();
  const thrust::complex<float> z = row[i], w = row[(i + 1) % n];
  const thrust::complex<float> r = thrust::exp(z) / (w * 2.0f + 3.0f) + thrust::sqrt(z) - thrust::conj(w);
  y[n + i] = make_float2(r.real(), r.imag());

  cuda::std::complex<float> p = cuda::std::polar(1.0f, a.x);
  p *= cuda::std::complex<float>(b.x, b.y);
  p += cuda::std::pow(cuda::std::complex<float>(2.5f, a.y), 1.5f);
  y[2 * n + i] = make_float2(p.real(), cuda::std::abs(p));
}

void run(float* y, const float* x, int n) { numbers<<<1, n>>>((float2*)y, (const float2*)x, n); }
