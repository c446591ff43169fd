#define SCALE 2
#define BLOCK 16
#include "common.cuh"

typedef float number;
enum Mode { OFF, ON };
struct Place {
  int index;
  inline int at() const { return index; }
};

__device__ float weight(float x) { return x + 1.0f; }

static __global__ void mark(float* y, const float* x) {
  Place place = {(int)threadIdx.x};
  number value = weight(x[place.at()]);
  y[place.at()] = ON == 1 ? value : 0.0f;
}

void run_narrow(float* y, const float* x, int n) {
  float one = 100.0f;
  cudaMemcpyToSymbol(offset, &one, sizeof(float));
  LOCAL_ROWS(y, x, n);
}

template <int N>
__global__ void narrow_kernel(float* y, const float* x, const int* shift) {
  Pair pair(x[threadIdx.x]);
  y[threadIdx.x] = pair.total() + N + shift[0];
}

void mark_narrow(float* y, const float* x) { mark<<<1, 32>>>(y, x); }
int narrow_launches() { return launches; }
int count_narrow(int n) { return n * SCALE / 2; }
__attribute__((weak)) int preferred() { return 10; }
int halved(int n) { return n / 2; }
