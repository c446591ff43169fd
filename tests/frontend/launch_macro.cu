#define CUDA_CHECK(call) do { if ((call) != cudaSuccess) { exit(1); } } while (0)
#define LAUNCH(KERNEL, GRID, BLOCK, ...) KERNEL<<<GRID, BLOCK>>>(__VA_ARGS__)
#define LAUNCH_TYPED(T, N) \
  do { \
    typed<T, N><<<1, N>>>(x);  /* a comment */ \
    CUDA_CHECK(cudaGetLastError()); \
  } while (0)
#define CASE(N) case N: sum_##N##_kernel<<<1, N>>>(x); break
#define NESTED(x) LAUNCH(one, 1, 1, x)
__global__ void one(float* x) {}
__global__ void sum_4_kernel(float* x) {}
template <typename T, int N> __global__ void typed(T* x) {}
void run(float* x, int n) {
  LAUNCH(one, 1, 2, x);
  LAUNCH_TYPED(float, 32);
  switch (n) { CASE(4); }
  NESTED(x);
  CUDA_CHECK(cudaGetLastError());
}
#define BY_PARAMETER(kernel, on, run) kernel<<<1, on>>>(run)
