#define SCALE 1
#include "common.cuh"

extern __shared__ double dynamic[];
__device__ float shared_by_all = 1000.0f;
__device__ float across(float x) { return scaled(x) * 4.0f; }

static __global__ void set(float* y, float value, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = value * table[1];
}

template <typename T>
void fill(T* y, T value, int n) {
  set<<<1, 32>>>(y, value, n);
}
template void fill<float>(float*, float, int);

void note_launch() { all_launches += 100; }
float* borrow(float* x, int offset) { return x + offset; }
