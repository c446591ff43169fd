// A header as trainers configure it: macros of the source decide what its code is.
#pragma once

#ifndef BLOCK
#define BLOCK 32
#endif
#ifndef FACTOR
#define FACTOR 1.0f
#endif

static int launches = 0;
static __device__ float offset = 0.0f;
static __constant__ float table[2] = {1.0f, 2.0f};

template <typename T>
__device__ __noinline__ T scaled(T x) {
  return x * SCALE * FACTOR;
}

struct Pair {
  float values[SCALE];
  __device__ __noinline__ Pair(float x) {
    for (int i = 0; i < SCALE; i++) values[i] = x;
  }
  __device__ __noinline__ float total() const {
    float sum = 0.0f;
    for (int i = 0; i < SCALE; i++) sum += values[i];
    return sum;
  }
};

inline __device__ float bumped(float x) { return scaled(x) + offset; }

// The neighbour in a row of BLOCK, and the row's length.
template <typename T>
__global__ void rows(T* y, const T* x) {
  __shared__ T row[BLOCK];
  row[threadIdx.x] = bumped(x[blockIdx.x * BLOCK + threadIdx.x]);
  __syncthreads();
  y[blockIdx.x * BLOCK + threadIdx.x] = row[BLOCK - 1 - threadIdx.x] + BLOCK;
}

// Host code is one in all sources.
inline int all_launches = 0;
inline int& calls() {
  static int count = 0;
  return count;
}

void note_launch();
int preferred();
float* borrow(float* x, int offset);

template <typename T>
void fill(T* y, T value, int n);
extern template void fill<float>(float*, float, int);

extern __device__ float shared_by_all;
__device__ float across(float x);

#define LOCAL_ROWS(y, x, n)                                  \
  launches++, all_launches++, calls()++;                     \
  rows<float><<<(n) / BLOCK, BLOCK>>>(y, x);                 \
  note_launch()
