// Kernels that the front end puts into thread-loop form, each of whose threads must still do what it does
// on a stack of its own. `out` and `real` have 4096 elements, which a case may leave unwritten.
#include <cuda_runtime.h>
#include <cuda_fp16.h>

#include <stdio.h>

// Where a thread's values may live.

__device__ void bump(int* value, int by) { *value += by; }
__device__ void bump_reference(int& value, int by) { value += by; }
__device__ int twice(int value) { return 2 * value; }

__global__ void variables_kernel(long long* out) {
  __shared__ int box[64];
  const int n = blockDim.x;
  int t = threadIdx.x, u = t + 1, *p = box;
  const int scale(3);
  unsigned long long wide{7};
  int passed = t;
  int counters[3] = {t, 1}, untouched[2];
  untouched[0] = t;
  p[t] = twice(t);
  bump(&passed, 5);
  bump_reference(u, 10);
  int* kept = &counters[1];
  __syncthreads();
  *kept += box[n - 1 - t];
  counters[2]++;
  wide = wide * scale + u;
  __syncthreads();
  out[t] = counters[0] + 1000 * counters[1] + 100000LL * counters[2] + passed * 10000000LL +
           (long long)wide * 1000000000 + untouched[0];
}
static void case_variables(long long* out, float*) { variables_kernel<<<1, 64>>>(out); }

struct Pair {
  int first, second = 4;
  __device__ Pair() : first(3) {}
  __device__ Pair(int a, int b) : first(a), second(b) {}
  __device__ int sum() const { return first + second; }
};
struct Shape {
  int size[2];
  Pair pair;
};

template <class T, int N>
__global__ void objects_kernel(T* out, float* real, Shape shape, int steps) {
  constexpr int kRows = N / 2;
  using Row = T;
  __shared__ Row rows[N];
  int t = threadIdx.x;
  Pair made, pair(t, 2), copied = pair;
  Pair several[kRows];
  T value = T(t);
  float4 four = make_float4(t, 1, 2, 3), other{1, 2, 3, 4};
  __half half = __float2half(0.5f * t);
  shape.size[1] += t;
  steps += 1;
  rows[t] = value + steps;
  __syncthreads();
  for (int s = 0; s < steps; s++) {
    four.x += rows[(t + s) % N];
    pair.second += s;
    __syncthreads();
    rows[t] += 1;
    if (s % 2 == 1) continue;
    __syncthreads();
  }
  several[1].first = made.sum();
  __syncthreads();
  out[t] = rows[(t + 3) % N] + 100 * pair.sum() + 10000 * copied.sum() +
           1000000LL * several[1].sum() + 100000000LL * shape.size[1] + shape.size[0] +
           shape.pair.sum();
  real[t] = four.x + four.w + other.y + __half2float(half);
}
static void case_objects(long long* out, float* real) {
  objects_kernel<long long, 32><<<1, dim3(32)>>>(out, real, Shape{{1, 2}, Pair(5, 6)}, 4);
}

__global__ void names_kernel(long long* out, const long long* in, int n) {
  extern __shared__ long long line[];
  long long total = 0;
  for (int s = 1; s <= 2; s++) {
    line[threadIdx.x] = s;
    __syncthreads();
    total += line[(threadIdx.x + s) % blockDim.x];
    __syncthreads();
  }
  for (short s = 3; s > 0; s--) {
    line[threadIdx.x] = total + s;
    __syncthreads();
    {
      float s = line[(threadIdx.x + 1) % blockDim.x];
      total += s;
      for (int n = 0; n < 3; n++) total += n;
    }
    __syncthreads();
  }
  for (; n > 0; n -= 3) {
    __syncthreads();
    in += n;
    total += in - (const long long*)0;
  }
  out[threadIdx.x] = total + 1000 * n;
}
static void case_names(long long* out, float*) { names_kernel<<<1, 40, 320>>>(out, 0, 10); }

// Ways through a kernel.

__global__ void ways_kernel(long long* out, int rounds) {
  __shared__ int box[128];
  int t = threadIdx.x;
  long long seen = 0;
  box[t] = t;
#pragma unroll
  for (int outer = 0; outer < rounds; outer++) {
    int inner = 0;
    while (true) {
      __syncthreads();
      if (inner == outer) break;
      seen = seen * 3 + box[(t + inner) % 128];
      inner++;
      if (inner % 2) __syncthreads();
      box[t] += 1;
    }
    do {
      if (outer == 1) {
        __syncthreads();
        seen += box[127 - t];
      } else if (outer == 2) {
        box[t] = 0;
        __syncthreads();
      } else
        __syncthreads();
    } while (--inner > 0);
    if (blockIdx.x == 1) return;
    switch (t % 3) {
      case 0:
        seen++;
        break;
      default:
        if (outer == 3 && t > 100) return;
    }
    __syncthreads();
  }
  out[blockIdx.x * 128 + t] = seen;
}
static void case_ways(long long* out, float*) { ways_kernel<<<3, 128>>>(out, 5); }

__global__ void leavers_kernel(long long* out) {
  __shared__ int arrived[96];
  int t = threadIdx.x;
  arrived[t] = 0;
  __syncthreads();
  if (t >= 64) return;
  for (int round = 0; round < t / 16 + 1; round++) {
    arrived[t]++;
    __syncthreads();
  }
  int sum = 0;
  for (int k = 0; k < 96; k++) sum += arrived[k];
  out[t] = sum;
}
static void case_leavers(long long* out, float*) { leavers_kernel<<<1, 96>>>(out); }

__global__ void shapes_kernel(long long* out) {
  __shared__ unsigned box[4][3][5];
  uint3 at = threadIdx;
  box[at.z][at.y][at.x] = at.x + 10 * at.y + 100 * at.z + 1000 * blockIdx.y;
  __syncthreads();
  unsigned thread = at.x + 5 * (at.y + 3 * at.z);
  out[60 * (blockIdx.x + gridDim.x * blockIdx.y) + thread] =
      box[3 - at.z][2 - at.y][4 - threadIdx.x];
  if (at.y == 1 && blockIdx.x == 0 && at.z == 0) printf("(%u %u) ", threadIdx.x, blockIdx.y);
}
static void case_shapes(long long* out, float*) {
  dim3 grid(2, 3), block(5, 3, 4);
  shapes_kernel<<<grid, block>>>(out);
}

// Without the barriers that it lacks: what a thread reads depends on the order of the threads.
__global__ void races_kernel(long long* out, int n) {
  __shared__ long long box[256];
  int t = threadIdx.x;
  box[t] = t;
  for (int s = n / 2; s > 0; s /= 2) {
    if (t < s) box[t] = box[t] * 3 + box[t + s];
    __syncthreads();
    box[(t * 7 + s) % n] += s;
  }
  out[n * blockIdx.x + t] = box[t];
}
static void case_races(long long* out, float*) { races_kernel<<<8, 256>>>(out, 256); }

__global__ void tiles_kernel(float* real, int n) {
  __shared__ float left[8][8], right[8][8];
  int x = threadIdx.x, y = threadIdx.y;
  float sum = 0.0f;
  for (int start = 0; start < n; start += 8) {
    left[y][x] = 1.0f / (1 + y + start + x);
    right[y][x] = 1.0f / (1 + x * (start + y));
    __syncthreads();
    for (int k = 0; k < 8; k++) sum += left[y][k] * right[k][x];
    __syncthreads();
  }
  real[64 * blockIdx.x + 8 * y + x] = sum;
}
static void case_tiles(long long*, float* real) { tiles_kernel<<<5, dim3(8, 8)>>>(real, 64); }

// Arrays that are read and written as vectors.
__global__ void pieces_kernel(float* real) {
  __shared__ float4 box[32];
  int t = threadIdx.x;
  char small = t;
  float values[8] = {};
  __half halves[4] = {__float2half(t), __float2half(1.0f)};
  reinterpret_cast<float4*>(values)[1] = make_float4(t, 2 * t, 3 * t, 4 * t);
  box[t] = reinterpret_cast<float4*>(values)[1];
  __syncthreads();
  reinterpret_cast<float4*>(values)[0] = box[(t + 31) % 32];
  *reinterpret_cast<float2*>(halves) = *reinterpret_cast<float2*>(&halves[0]);
  __syncthreads();
  for (int k = 0; k < 8; k++) real[8 * t + k] = values[k] + small + __half2float(halves[k / 2]);
}
static void case_pieces(long long*, float* real) { pieces_kernel<<<1, 32>>>(real); }
