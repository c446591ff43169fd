#define SCALE 3
#define FACTOR 10.0f
#include "common.cuh"

#define ON 7
using number = double;
extern __shared__ float dynamic[];
class Place {
  long long before = 5;
  int index;

 public:
  __device__ Place(int index) : index(index) {}
  inline __device__ int at() const { return index; }
};

__device__ float weight(float x) { return x + 2.0f; }

static __global__ void mark(float* y, const float* x) {
  Place place(threadIdx.x);
  number value = weight(x[place.at()]);
  dynamic[place.at()] = value;
  y[place.at()] = across(dynamic[place.at()]) + shared_by_all;
}

void run_wide(float* y, const float* x, int n) { LOCAL_ROWS(y, x, n); }

template <int N>
__global__ void wide_kernel(float* y, const float* x, const int* shift) {
  Pair pair(x[threadIdx.x]);
  y[threadIdx.x] = pair.total() + N + shift[0];
}

void mark_wide(float* y, const float* x) { mark<<<1, 32, 32 * sizeof(float)>>>(y, x); }
int wide_launches() { return launches + ON; }
int count_wide(int n) { return n * SCALE / 3; }
int preferred() { return 50; }
float halved(float x) { return x / 2; }
