// kernel<<<1, 2>>>(in a comment);
#include <cstdio>
__global__ void scale(float* x, float a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= a;
}
namespace deep { namespace er { __global__ void fill(float* x, int n); } }
void run(float* x, int n, cudaStream_t stream) {
  const char* text = "scale<<<1, 2>>>(x)"; /* scale<<<1, 2>>>(x) */
  const char* raw = R"cu(scale<<<1, 2>>>(x);
  )" scale<<<3, 4>>>(x))cu";
  scale<<<(n + 255) / 256, 256>>>(x, 2.0f, n);
  ::deep::er::fill<<<dim3(1, 2), dim3(32, 8), 4 * sizeof(float), stream>>>(x, n);
  if (n < 4 && n > 1) scale<<<1, n>>>(x, 1.f, n); else scale <<< 2, n >>> (x, 1.f, n);
  (scale)<<<1, 1>>>(x, 1.f, n);
  (void)text; (void)raw; (void)(n << 3 >> 2);
}
