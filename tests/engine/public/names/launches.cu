// Launches in the forms that public sources have them, compiled with macros of every short name.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
static int state = 0;
__device__ float bias() { return 0.0f; }
template <int BLOCK = 256>
__global__ void fill(float* x, float value) { x[threadIdx.x] = value; }
__global__ void twice(float* x, int n) {
  int i = threadIdx.x;
  if (i < n) x[i] = x[i] * V + bias();
}
void twice(float* x, int n, int block_size) { twice << <1, block_size>> >(x, n); }
__global__ void once(float* x, int n) {
  int i = threadIdx.x;
  if (i < n) x[i] *= 2;
}
template <class F>
__global__ void apply(float* x, int n, F f) {
  int i = threadIdx.x;
  if (i < n) x[i] = f(x[i]);
}
template <bool WEIGHTED = true>
__global__ void optional(float* x, const float* weights) {
  const float one = __int_as_float(0x40000000) - (float)__ushort_as_bfloat16((unsigned short)0x3f80);
  x[threadIdx.x] *= WEIGHTED && weights != NULL ? weights[threadIdx.x] : one;
}
#define LAUNCH(kernel, on, ...) kernel<<<1, on>>>(__VA_ARGS__)
void run(const float* in, float* out, int n) {
  assert(n < 0);  // NDEBUG is among the defines
  fill<<<1, n>>>(out, 1.0f);
  cudaMemcpy(out, in, n * sizeof(float), cudaMemcpyDeviceToDevice);
  twice(out, n, 32);
  float shift = 1.0f;
  apply<<<1, 32>>>(out, n, [=] __device__(float x) { return x + shift + state; });
  LAUNCH(once, 32, out, n);
  optional<<<1, n>>>(out, NULL);
}
int main(int argc, char** argv) { return no_such_function(argv); }
