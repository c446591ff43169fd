// Kernels whose regions between waits run for all threads one after the other, and what makes them go on in the other
// form. Each thread writes down when its turn was, so that `out` shows the order in which threads run; `real` has their
// values. Both have 4096 elements, which a case may leave unwritten.
#include <cuda_runtime.h>

#define FULL_MASK 0xffffffffu

/// Appends `what` to the list in `out`, as whoever comes next, in the order of turns.
__device__ void note(long long* out, int what) {
  int at = (int)out[0] + 1;
  if (at < 4096) out[at] = what, out[0] = at;
}
static void clear(long long* out, float* real) {
  cudaMemset(out, 0, 4096 * sizeof(long long));
  cudaMemset(real, 0, 4096 * sizeof(float));
}
__device__ float number(int t) { return 1.0f / (3 + t * 7 % 1000); }

__global__ void norm_kernel(long long* out, float* real, int n) {
  __shared__ float of_warps[32];
  __shared__ float mean;
  const int t = threadIdx.x, lane = t % 32, warp = t / 32;
  float sum = 0.0f;
  for (int i = t; i < n; i += blockDim.x) sum += number(i + blockIdx.x);
  for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(FULL_MASK, sum, d);
  note(out, t);
  if (lane == 0) of_warps[warp] = sum;
  __syncthreads();
  note(out, 1000 + t);
  sum = lane < (blockDim.x + 31) / 32 ? of_warps[lane] : 0.0f;
  for (int d = 16; d > 0; d /= 2) sum += __shfl_down_sync(FULL_MASK, sum, d);
  if (t == 0) mean = sum / n;
  __syncthreads();
  for (int i = t; i < n; i += blockDim.x) real[i % 4096] += number(i) - mean;
}
static void case_norm(long long* out, float* real) { clear(out, real), norm_kernel<<<3, 256>>>(out, real, 1000); }
static void case_norm_of_one_thread(long long* out, float* real) { clear(out, real), norm_kernel<<<2, 1>>>(out, real, 77); }
static void case_norm_of_31(long long* out, float* real) { clear(out, real), norm_kernel<<<2, 31>>>(out, real, 77); }
static void case_norm_of_33(long long* out, float* real) { clear(out, real), norm_kernel<<<2, 33>>>(out, real, 77); }
static void case_norm_of_96(long long* out, float* real) { clear(out, real), norm_kernel<<<2, 96>>>(out, real, 77); }
static void case_norm_of_1000(long long* out, float* real) { clear(out, real), norm_kernel<<<1, 1000>>>(out, real, 1234); }
static void case_norm_of_1024(long long* out, float* real) { clear(out, real), norm_kernel<<<1, 1024>>>(out, real, 0); }

/// A fold in a branch of one warp, and one inside of a loop that the whole block shares.
__global__ void branch_kernel(long long* out, float* real, int rounds) {
  __shared__ float sums[64];
  int t = threadIdx.y * blockDim.x + threadIdx.x;
  int lane = t & 31;
  float kept[3] = {1.0f / (3 + t), 0.25f * t, 1.0f};
  double wide = t;
  out += 0;
  for (int round = 0; round < rounds; ++round) {
    float x = kept[round % 3] + round;
    note(out, t);
#pragma unroll
    for (int d = 16; d > 0; d >>= 1) {
      x = fmaxf(x, __shfl_xor_sync(FULL_MASK, x, d));
    }
    note(out, 1000 + t);
    if (lane == 31) sums[t / 32] = x;
    __syncthreads();
    if (t < 32) {
      float y = sums[lane];
      for (int d = 1; d < 32; d *= 2) y += __shfl_up_sync(FULL_MASK, y, d, 16);
      sums[32 + lane] = y;
      note(out, 2000 + t);
    }
    __syncthreads();
    kept[(round + 1) % 3] += sums[32 + (t + round) % 32];
    wide = wide * 0.5 + x;
    sums[t % 32] = t;
    __syncthreads();
  }
  real[t] = kept[0] + kept[1] * 2 + kept[2] * 3 + (float)wide;
}
static void case_branch(long long* out, float* real) {
  clear(out, real), branch_kernel<<<2, dim3(16, 16)>>>(out, real, 3);
}
static void case_branch_of_no_round(long long* out, float* real) {
  clear(out, real), branch_kernel<<<2, dim3(8, 4)>>>(out, real, 0);
}
static void case_branch_of_odd_threads(long long* out, float* real) {
  clear(out, real), branch_kernel<<<1, dim3(7, 9)>>>(out, real, 2);
}

/// Loops and conditions about which threads agree at run time, or do not.
__global__ void agreeing_kernel(long long* out, float* real, int first, int split) {
  __shared__ float cells[256];
  int t = threadIdx.x;
  int rounds = t < split ? first : first + 1;
  float own = number(t);
  cells[t] = own;
  __syncthreads();
  for (int i = t - rounds; i < t; i++) {
    own += cells[(t + 1) % blockDim.x];
    __syncthreads();
    cells[t] = own;
    note(out, 100 * i + t);
    __syncthreads();
  }
  int left = rounds;
  while (left > 0) {
    left--;
    __syncthreads();
    own += left;
    real[1000 + t] = own;
    __syncthreads();
  }
  if (rounds > first) {
    real[t] += 1;
    __syncthreads();
  } else {
    real[t] += 2;
    __syncthreads();
  }
  real[t] += cells[(t + 2) % blockDim.x];
}
static void case_all_agree(long long* out, float* real) { clear(out, real), agreeing_kernel<<<2, 96>>>(out, real, 3, 96); }
static void case_all_agree_about_nothing(long long* out, float* real) {
  clear(out, real), agreeing_kernel<<<2, 96>>>(out, real, 0, 1000);
}

/// Some warps, some lanes or all threads leave early.
__global__ void leaving_kernel(long long* out, float* real, int from, int to) {
  __shared__ float cells[256];
  int t = threadIdx.x;
  float x = number(t);
  cells[t] = x;
  if (t >= from && t < to) return;
  for (int d = 16; d > 0; d /= 2) x += __shfl_xor_sync(FULL_MASK, x, d);
  note(out, t);
  if (x < 0.0f) return;
  cells[t] += x;
  __syncthreads();
  note(out, 1000 + t);
  real[t] = x + cells[(t + 40) % blockDim.x];
  if (t == 3 && from == 5) return;
  __syncthreads();
  real[1000 + t] = x;
  atomicAdd(&real[2000], x);
  __syncthreads();
  real[3000 + t] = real[2000];
}
static void case_nobody_leaves(long long* out, float* real) { clear(out, real), leaving_kernel<<<2, 128>>>(out, real, 0, 0); }
static void case_all_leave(long long* out, float* real) { clear(out, real), leaving_kernel<<<2, 128>>>(out, real, 0, 128); }
static void case_warps_leave(long long* out, float* real) { clear(out, real), leaving_kernel<<<2, 128>>>(out, real, 32, 96); }
static void case_lanes_leave(long long* out, float* real) { clear(out, real), leaving_kernel<<<2, 128>>>(out, real, 37, 60); }
static void case_one_leaves_later(long long* out, float* real) {
  clear(out, real), leaving_kernel<<<2, 128>>>(out, real, 5, 5);
}
static void case_no_block_leaves(long long* out, float* real) { clear(out, real), leaving_kernel<<<1, 32>>>(out, real, 0, 0); }

/// A warp a row: whole warps return, and the rest of the kernel has no barrier.
template <class T, int Width>
__global__ void rows_kernel(long long* out, T* real, int rows, unsigned lanes) {
  int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
  int lane = threadIdx.x % 32;
  if (row >= rows) return;
  T x = (T)number(row * 32 + lane);
  T most = x;
  for (int d = Width / 2; d > 0; d /= 2) most = max(most, __shfl_xor_sync(lanes, most, d, Width));
  T sum = x - most;
  for (int d = Width / 2; d > 0; d /= 2) sum = sum + __shfl_xor_sync(lanes, sum, d, Width);
  if (lanes != 7) {
    T last = sum;
    last *= __shfl_down_sync(FULL_MASK, last, 4);
    last *= __shfl_down_sync(FULL_MASK, last, 2);
    sum += last;
  }
  note(out, row * 32 + lane);
  real[row * 32 + lane] = x / sum;
}
static void case_rows(long long* out, float* real) {
  clear(out, real), rows_kernel<float, 32><<<4, 128>>>(out, real, 13, FULL_MASK);
}
static void case_rows_of_16(long long* out, float* real) {
  clear(out, real), rows_kernel<float, 16><<<3, 64>>>(out, real, 6, FULL_MASK);
}
static void case_rows_in_no_block(long long* out, float* real) {
  clear(out, real), rows_kernel<float, 32><<<1, 128>>>(out, real, 0, FULL_MASK);
}

/// The lanes of a warp do not agree: some wait for others that have ended, or come with another mask.
__global__ void lanes_kernel(long long* out, float* real, int split, unsigned lanes) {
  int t = threadIdx.x, lane = t % 32;
  float x = number(t);
  note(out, t);
  for (int d = 16; d > 0; d /= 2) x += __shfl_xor_sync(lanes, x, d);
  x += 1;
  if (lane < split) {
    x *= 2;
    for (int d = 8; d > 0; d /= 2) x += __shfl_xor_sync(FULL_MASK, x, d);
  } else {
    x *= 3;
    for (int d = 8; d > 0; d /= 2) x += __shfl_xor_sync(FULL_MASK, x, d);
  }
  real[1000 + t] = x;
}
static void case_lanes_agree(long long* out, float* real) {
  clear(out, real), lanes_kernel<<<2, 96>>>(out, real, 32, FULL_MASK);
}
static void case_lanes_differ(long long* out, float* real) {
  clear(out, real), lanes_kernel<<<2, 96>>>(out, real, 13, FULL_MASK);
}

/// Shuffles that are no chains: scans, others' values in expressions, lanes of a number.
__global__ void scan_kernel(long long* out, float* real, int columns) {
  __shared__ float warp_sums[32];
  __shared__ float carry;
  const int lane = threadIdx.x % 32;
  const int warp_id = threadIdx.x / 32;
  out += 0;
  if (threadIdx.x == 0) carry = 0.0f;
  __syncthreads();
  for (int base = 0; base < columns; base += blockDim.x) {
    const int i = base + threadIdx.x;
    float value = i < columns ? number(i) : 0.0f;
#pragma unroll
    for (int d = 1; d <= 16; d *= 2) {
      float n = __shfl_up_sync(0xffffffff, value, d, 32);
      if (lane >= d) value += n;
    }
    if (lane == 31) warp_sums[warp_id] = value;
    __syncthreads();
    if (warp_id == 0) {
      float warp_sum = lane < (blockDim.x / 32) ? warp_sums[lane] : 0.0f;
      for (int d = 1; d <= 16; d *= 2) {
        const float n = __shfl_up_sync(0xffffffff, warp_sum + 0.0f, d);
        if (lane >= d) warp_sum += n;
      }
      warp_sums[lane] = warp_sum;
      note(out, lane);
    }
    __syncthreads();
    float block_prefix = warp_id > 0 ? warp_sums[warp_id - 1] : 0.0f;
    float c = carry;
    if (i < columns) real[i] = value + block_prefix + c;
    __syncthreads();
    if (threadIdx.x == blockDim.x - 1) carry = c + value + block_prefix;
    __syncthreads();
  }
}
static void case_scan(long long* out, float* real) { clear(out, real), scan_kernel<<<2, 256>>>(out, real, 1000); }
static void case_scan_of_33(long long* out, float* real) { clear(out, real), scan_kernel<<<1, 33>>>(out, real, 100); }
static void case_scan_of_nothing(long long* out, float* real) { clear(out, real), scan_kernel<<<1, 64>>>(out, real, 0); }

__device__ __forceinline__ float from_lane(float value, int lane, int width = 32) {
  return __shfl_sync(0xffffffff, value, lane, width);
}
__global__ void welford_kernel(long long* out, float* real, int narrow) {
  float mean = threadIdx.x * 0.37f, count = 1.0f + threadIdx.x % 5, square = 0.0f;
  int numbers = threadIdx.x * 3;
  for (int l = 0; l <= 4; ++l) {
    int source = (threadIdx.x + (1 << l)) & 31;
    float other_mean = from_lane(mean, source);
    float other_count = from_lane(count, source);
    const float other_square = __shfl_xor_sync(FULL_MASK, square * 1.0f, 1 << l);
    float delta = other_mean - mean;
    float all = count + other_count;
    mean = (count * mean + other_count * other_mean) / all;
    square = square + other_square + delta * delta * count * other_count / all;
    count = all;
  }
  int seventh = threadIdx.x * 7 - 3;
  numbers = __shfl_sync(FULL_MASK, numbers + 1, seventh, narrow);
  numbers += __shfl_down_sync(FULL_MASK, numbers, 40);
  float first = __shfl_sync(FULL_MASK, mean, 35);
  note(out, threadIdx.x);
  real[threadIdx.x] = mean + square + count + numbers + first;
}
static void case_welford(long long* out, float* real) { clear(out, real), welford_kernel<<<2, 96>>>(out, real, 32); }
static void case_welford_of_8(long long* out, float* real) { clear(out, real), welford_kernel<<<2, 64>>>(out, real, 8); }
static void case_welford_of_31(long long* out, float* real) { clear(out, real), welford_kernel<<<2, 31>>>(out, real, 16); }

/// Memory in front of a condition around a wait and behind it: the order of threads shows.
__global__ void shown_kernel(long long* out, float* real, int n) {
  __shared__ float cells[64];
  int t = threadIdx.x;
  cells[t] = number(t);
  __syncthreads();
  float x = cells[(t + 63) % 64];
  if (n > 3) {
    cells[t] = x * 2;
    __syncthreads();
    x += cells[(t + 1) % 64];
  }
  real[t] = x;
}
static void case_shown(long long* out, float* real) { clear(out, real), shown_kernel<<<1, 64>>>(out, real, 5); }
