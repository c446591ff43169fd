// Kernels in thread-loop form that wait for lanes of their warp, or let others run in front of atomics. Each thread
// writes down when its turn was, so that `out` shows the order in which threads run; `real` has their values. Both
// have 4096 elements, which a case may leave unwritten.
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

__global__ void sums_kernel(long long* out, float* real) {
  __shared__ float of_warps[32];
  int t = threadIdx.x + blockDim.x * threadIdx.y;
  float own = number(t + blockIdx.x);
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) own += __shfl_xor_sync(FULL_MASK, own, offset);
  note(out, t);
  if (t % 32 == 0) of_warps[t / 32] = own;
  __syncthreads();
  note(out, 1000 + t);
  own = t % 32 < (blockDim.x * blockDim.y + 31) / 32 ? of_warps[t % 32] : 0.0f;
  // The value of a lane is that of the others too; a comment stays.
  own += __shfl_xor_sync(FULL_MASK, own, 16);
  own += __shfl_xor_sync(FULL_MASK, own, 8);  // and so does this one
  own += __shfl_xor_sync(FULL_MASK, own, 4);
  own += __shfl_xor_sync(FULL_MASK, own, 2);
  own += __shfl_xor_sync(FULL_MASK, own, 1);
  note(out, 2000 + t);
  if (t % 3 == 0) atomicAdd(&real[t % 7], own);
  real[100 + t] = own;
}
static void case_sums(long long* out, float* real) {
  clear(out, real), sums_kernel<<<3, dim3(16, 16)>>>(out, real);
}
static void case_sums_of_one_warp(long long* out, float* real) {
  clear(out, real), sums_kernel<<<2, 32>>>(out, real);
}
static void case_sums_with_a_last_warp_of_three(long long* out, float* real) {
  clear(out, real), sums_kernel<<<1, 67>>>(out, real);
}
static void case_sums_of_one_thread(long long* out, float* real) {
  clear(out, real), sums_kernel<<<1, 1>>>(out, real);
}

__global__ void no_barrier_kernel(long long* out, float* real, int rounds) {
  int t = threadIdx.x;
  for (int round = 0; round < rounds; round++) {
    double x = number(t + round);
    int largest = t * 37 % 101;
    for (int d = 1; d < 32; d <<= 1) {
      largest = max(largest, __shfl_down_sync(FULL_MASK, largest, d));
    }
    note(out, t);
    if (round % 2) continue;
    for (int d = 8; d; d >>= 1) x = __shfl_up_sync(FULL_MASK, x, d, 16) * x;
    if (largest < 60 + round) break;
    real[t] += x + largest;
  }
  note(out, 1000 + t);
}
static void case_no_barrier(long long* out, float* real) {
  clear(out, real), no_barrier_kernel<<<2, 160>>>(out, real, 5);
}

__global__ void masks_kernel(long long* out, float* real) {
  int t = threadIdx.x, lane = t % 32;
  float x = number(t);
  // Two chains in one warp, with masks of their own.
  unsigned half = lane < 16 ? 0x0000ffffu : 0xffff0000u;
  for (int d = 8; d > 0; d /= 2) x += __shfl_xor_sync(half, x, d);
  note(out, t);
  // Lanes that read others which take no part, and masks that are full at once.
  if (lane < 11) {
    for (int d = 16; d > 0; d /= 2) x = fminf(__shfl_down_sync(0x7ffu, x, d), x);
  } else {
    unsigned alone = 1u << lane;
    for (int d = 1; d < 32; d *= 2) x = x + __shfl_up_sync(alone, x, d);
  }
  note(out, 1000 + t);
  unsigned odd = lane % 2 ? 0xaaaaaaaau : 0x55555555u;
  for (int d = 16; d > 1; d /= 2) x *= __shfl_xor_sync(odd, x, d);
  note(out, 2000 + t);
  // Two chains of one mask, of which the second steps agree.
  if (lane < 5) {
    x += __shfl_xor_sync(FULL_MASK, x, 16);
    x += __shfl_xor_sync(FULL_MASK, x, 8);
    x += __shfl_xor_sync(FULL_MASK, x, 1);
  } else {
    x += __shfl_xor_sync(FULL_MASK, x, 1);
    x += __shfl_xor_sync(FULL_MASK, x, 8);
    x += __shfl_xor_sync(FULL_MASK, x, 1);
  }
  note(out, 3000 + t);
  real[t] = x;
}
static void case_masks(long long* out, float* real) { clear(out, real), masks_kernel<<<1, 96>>>(out, real); }

__global__ void leaving_kernel(long long* out, float* real) {
  __shared__ float kept[128];
  int t = threadIdx.x, lane = t % 32;
  if (lane > 20 + t / 32) return;
  float x = number(t);
  kept[t] = x;
  for (int d = 16; d > 0; d /= 2) x += __shfl_xor_sync(0xffffffff, x, d);
  note(out, t);
  if (lane % 5 == 0) {
    atomicAdd(&real[4000], x);
    return;
  }
  for (int d = 1; d <= 16; d = d * 2) {
    x = fmaxf(x, __shfl_xor_sync(~0u, x, d));
  }
  note(out, t);
  if (t % 2) __syncthreads(); else __syncthreads();
  if (t == 7) return;
  for (int d = 4; d > 0; d /= 2) x += __shfl_down_sync(0xffffffff, x, d);
  note(out, t);
  real[t] = x + kept[1];
}
static void case_leaving(long long* out, float* real) { clear(out, real), leaving_kernel<<<3, 100>>>(out, real); }

/// Enough atomics that other threads get their turn between them.
__global__ void counting_kernel(long long* out, float* real, int rounds) {
  __shared__ int counts[8];
  __shared__ double places[2];
  int t = threadIdx.x;
  float x = number(t + 64 * blockIdx.x);
  if (t < 8) counts[t] = 0;
  if (t < 2) places[t] = t;
  __syncthreads();
  for (int round = 0; round < rounds; round++) {
    atomicAdd(&counts[(t + round) % 8], 1 + round);
    note(out, t);
    if (round % 3 == 1)
      atomicAdd(&real[t % 3], x * round);
    else
      atomicMax(&counts[3], t);
    for (int d = 16; d > 0; d /= 2) x += __shfl_xor_sync(FULL_MASK, x, d) ;
    x *= 0.25f;
    atomicAdd(real + 3, x);
  }
  __syncthreads();
  for (int k = 0; k < 3; k++) {
    // Others change the place and the value in between, if they get their turn.
    atomicAdd(&real[8 + counts[k] % 5], (float)counts[(t + k) % 8] * x);
    atomicAdd(places, places[1]);
    counts[(t * k) % 8] += 1;
    places[1] += 0.1f;
  }
  note(out, 1000 + t);
  real[20 + t] = places[0];
}
static void case_atomics(long long* out, float* real) {
  clear(out, real), counting_kernel<<<3, 128>>>(out, real, 5);
}
static void case_atomics_of_blocks_that_run_together(long long* out, float* real) {
  clear(out, real);
  int rounds = 5;
  void* arguments[] = {&out, &real, &rounds};
  cudaLaunchCooperativeKernel((void*)counting_kernel, dim3(3), dim3(128), arguments, 0, nullptr);
}

/// Steps that reach beyond a warp, too many of them, none, and some that depend on variables.
template <int Width>
__global__ void steps_kernel(long long* out, float* real, int far) {
  int t = threadIdx.x;
  float x = number(t), y = x, z = x;
  for (int d = far; d > 0; d /= 3) x += __shfl_down_sync(FULL_MASK, x, d);
  note(out, t);
  for (int d = 0; d > 0; d /= 2) y += __shfl_down_sync(FULL_MASK, y, d);
  for (int d = 19; d > 0; d = d - 1) y += __shfl_down_sync(FULL_MASK, y, d);
  note(out, 1000 + t);
  int width = 1 << t / 32 % 3 + 2;
  z += __shfl_down_sync(FULL_MASK, z, 2, width);
  z += __shfl_down_sync(FULL_MASK, z, 1, width);
  unsigned bits = 1u << t % 32;
  for (unsigned d = 1; d < Width; d <<= 1) bits |= __shfl_xor_sync(FULL_MASK, bits, d, Width);
  for (int d = -1; d > -4; d = d - 1) bits ^= __shfl_xor_sync(FULL_MASK, bits, d);
  int below = 16;
  for (int d = below; d > 0; d /= 2) z += __shfl_up_sync(FULL_MASK, z, d);
  below += t;
  int* there = &below;
  note(out, 2000 + t);
  real[t] = x + y + z + bits + *there;
}
static void case_steps(long long* out, float* real) {
  clear(out, real), steps_kernel<8><<<1, 128>>>(out, real, 100);
}

/// Lanes that end free those that wait for them, one after the other.
__global__ void pairs_kernel(long long* out, float* real) {
  int t = threadIdx.x, lane = t % 32;
  float x = number(t);
  note(out, t);
  if (lane % 2) return;
  unsigned pair = 3u << lane;
  for (int d = 2; d > 0; d /= 2) x += __shfl_xor_sync(pair, x, d);
  note(out, 1000 + t);
  real[t] = x;
}
static void case_pairs(long long* out, float* real) { clear(out, real), pairs_kernel<<<1, 96>>>(out, real); }

__device__ unsigned drawn(unsigned seed, unsigned step, unsigned of) {
  unsigned x = seed * 0x9e3779b9u ^ step * 0x85ebca6bu ^ of * 0xc2b2ae35u;
  x ^= x >> 15, x *= 0x2c1b3c6du, x ^= x >> 12, x *= 0x297a2d39u;
  return x ^ x >> 15;
}
/// What the order of turns makes of `what`.
__device__ void mark(long long* out, int what) { out[0] = (long long)((unsigned long long)out[0] * 31 + what); }

/// Groups of lanes do this or that, all threads come to barriers, and some threads end.
__global__ void drawn_kernel(long long* out, float* real, unsigned seed) {
  int t = threadIdx.x, lane = t % 32;
  float x = number(t);
  for (int step = 0; step < 12; step++) {
    int bits = drawn(seed, step, t / 32) % 6, first = lane >> bits << bits;
    unsigned mask = bits == 5 ? FULL_MASK : (1u << (1 << bits)) - 1 << first;
    unsigned what = drawn(seed, step, 1000 + (t >> bits)) % 4, own = drawn(seed, step, 5000 + t);
    mark(out, 100 * t + step);
    if (own % 24 == 0) return;
    if (what == 0) {
      for (int d = 16; d > 0; d /= 2) x += __shfl_xor_sync(mask, x, d);
    } else if (what == 1) {
      x = fmaxf(x, __shfl_down_sync(mask, x, 4));
      x = fmaxf(x, __shfl_down_sync(mask, x, 1));
    } else if (what == 2 && own % 3) {
      for (unsigned k = 0; k < own % 8; k++) atomicAdd(&real[4000], x);
      mark(out, t);
    }
    x *= 0.5f;
    if (drawn(seed, step, 9999) % 3 == 0) __syncthreads();
  }
  real[t] += x;
  mark(out, t);
}
static void case_drawn(long long* out, float* real) {
  clear(out, real);
  for (unsigned seed = 0; seed < 200; seed++) drawn_kernel<<<2, 32 + seed % 5 * 24>>>(out, real, seed);
}
