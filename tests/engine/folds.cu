// Chains of shuffles that the front end makes one wait. Each thread writes down when its turn was, so that `out`
// shows the order in which threads run; `real` has their values. Both have 4096 elements, which a case may leave
// unwritten.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

namespace cg = cooperative_groups;

#define FULL_MASK 0xffffffffu

/// Appends `what` to the list in `out`, as whoever comes next, in the order of turns.
__device__ void note(long long* out, int what) {
  int at = (int)out[0] + 1;
  if (at < 4096) out[at] = what, out[0] = at;
}
static void clear(long long* out) { cudaMemset(out, 0, 4096 * sizeof(long long)); }
__device__ int linear() {
  return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
}
__device__ float number(int t) { return 1.0f / (3 + t * 7 % 1000); }

__device__ float sum_of_warp(float value) {
#pragma unroll
  for (int offset = warpSize / 2; offset > 0; offset /= 2) value += __shfl_xor_sync(FULL_MASK, value, offset);
  return value;
}
template <class T>
__device__ inline T max_of_warp(T value) {
  for (int offset = 16; offset > 0; offset >>= 1) {
    value = max(value, __shfl_down_sync(0xFFFFFFFF, value, offset));
  }
  return value;
}
template <int Width>
__device__ double product_up(double x, unsigned lanes) {
  for (unsigned d = 1; d < Width; d <<= 1) x = __shfl_up_sync(lanes, x, d, Width) * x;
  return x;
}

__global__ void plain_kernel(long long* out, float* real) {
  int t = linear();
  float sum = sum_of_warp(number(t));
  note(out, t);
  float top = max_of_warp(number(t) - sum);
  note(out, t);
  int largest = max_of_warp(t * 37 % 101);
  note(out, t);
  real[t] = sum + top + largest + (float)product_up<8>(number(t) + 1, FULL_MASK);
}
static void case_plain(long long* out, float* real) { clear(out), plain_kernel<<<1, 256>>>(out, real); }
static void case_one_warp(long long* out, float* real) { clear(out), plain_kernel<<<1, 32>>>(out, real); }
static void case_last_warp_with_three(long long* out, float* real) {
  clear(out), plain_kernel<<<1, 67>>>(out, real);
}
static void case_one_thread(long long* out, float* real) { clear(out), plain_kernel<<<1, 1>>>(out, real); }

__global__ void with_barriers_kernel(long long* out, float* real) {
  __shared__ float sums[32];
  int t = linear();
  // Threads come to the barrier in another order than that of their indices, and leave it in another.
  if (t % 32 % 3 == 0) __syncwarp(0x49249249u);
  float sum = sum_of_warp(number(t));
  note(out, t);
  if (t % 32 == 0) sums[t / 32] = sum;
  __syncthreads();
  note(out, 1000 + t);
  sum = sum_of_warp(t % 32 < blockDim.x / 32 ? sums[t % 32] : 0.0f);
  note(out, 2000 + t);
  __syncthreads();
  if (t == 40 || t > 120) return;
  if (t < 32) sum = sum_of_warp(sum * t);
  note(out, 3000 + t);
  real[t] = sum;
}
static void case_with_barriers(long long* out, float* real) {
  clear(out), with_barriers_kernel<<<2, 160>>>(out, real);
}

__global__ void masks_kernel(long long* out, float* real) {
  int t = linear(), lane = t % 32;
  float x = number(t);
  // Two chains in one warp, with masks of their own.
  unsigned half = lane < 16 ? 0x0000ffffu : 0xffff0000u;
  for (int d = 8; d > 0; d /= 2) x += __shfl_xor_sync(half, x, d);
  note(out, t);
  // Different chains, and lanes that read others which take no part.
  if (lane < 11) {
    for (int d = 16; d > 0; d /= 2) x = fminf(__shfl_down_sync(0x7ffu, x, d), x);
  } else {
    unsigned others = 0xfffff800u;
    for (int d = 1; d < 32; d *= 2) x = x + __shfl_up_sync(others, x, d);
  }
  note(out, 1000 + t);
  // A chain in some lanes, its shuffles one by one in the others.
  if (lane % 2) {
    x += __shfl_xor_sync(FULL_MASK, x, 4);
    x += __shfl_xor_sync(FULL_MASK, x, 2);
    x += __shfl_xor_sync(FULL_MASK, x, 1);
  } else {
    float y = __shfl_xor_sync(FULL_MASK, x, 4);
    x += y;
    note(out, 2000 + t);
    y = __shfl_xor_sync(FULL_MASK, x, 2);
    x += y;
    y = __shfl_xor_sync(FULL_MASK, x, 1);
    x += y;
  }
  note(out, 3000 + t);
  // Chains of which the second steps agree.
  if (lane < 5) {
    x *= __shfl_xor_sync(FULL_MASK, x, 16);
    x *= __shfl_xor_sync(FULL_MASK, x, 8);
    x *= __shfl_xor_sync(FULL_MASK, x, 1);
  } else {
    x *= __shfl_xor_sync(FULL_MASK, x, 1);
    x *= __shfl_xor_sync(FULL_MASK, x, 8);
    x *= __shfl_xor_sync(FULL_MASK, x, 1);
  }
  real[t] = x;
}
static void case_masks(long long* out, float* real) { clear(out), masks_kernel<<<1, 96>>>(out, real); }

__global__ void leaving_kernel(long long* out, float* real) {
  int t = linear(), lane = t % 32;
  if (lane > 20 + t / 32) return;
  float x = number(t);
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
  // Enough atomics that other threads get their turn between them.
  for (int i = 0; i < 40; i++) atomicAdd(&real[4001], x);
  for (int d = 2; d; d--) x += __shfl_down_sync(0xffffffff, x, d), real[4002] += x;
  for (int d = 4; d > 0; d /= 2) x += __shfl_down_sync(0xffffffff, x, d);
  note(out, t);
  real[t] = x;
}
static void case_leaving(long long* out, float* real) {
  cudaMemset(real, 0, 4096 * sizeof(float));
  clear(out), leaving_kernel<<<3, 100>>>(out, real);
}

__global__ void groups_kernel(long long* out, float* real, float scale) {
  cg::thread_block block = cg::this_thread_block();
  auto warp = cg::tiled_partition<32>(block);
  auto eight = cg::tiled_partition<8>(warp);
  auto two = cg::tiled_partition<2>(block);
  int t = block.thread_rank();
  float x = cg::reduce(warp, number(t), cg::plus<float>{});
  note(out, t);
  x += cg::reduce(eight, number(t) * scale, cg::greater<float>());
  note(out, t);
  x += cg::reduce(two, t, cg::less<int>()) + cg::reduce(two, t * 3, cg::bit_xor<int>());
  // An operation that is not the headers' own, and one that counts.
  x += cg::reduce(warp, number(t), [](float a, float b) { return a - b / 2; });
  x += cg::reduce(eight, x, [&](float a, float b) { return note(out, 1000 + t), fmaxf(a, b); });
  note(out, 2000 + t);
  real[t] = x;
}
static void case_groups(long long* out, float* real) {
  clear(out), groups_kernel<<<1, dim3(4, 3, 7)>>>(out, real, 2.0f);
}

struct Twofold {
  float a, b;
  __device__ Twofold& operator+=(const Twofold& other) { return a += other.a, b += other.b, *this; }
};

__device__ void sum_in_place(float& value) {
  for (int d = 16; d > 0; d /= 2) value += __shfl_xor_sync(FULL_MASK, value, d);
}

__global__ void types_kernel(long long* out, float* real) {
  __shared__ float box;
  int t = linear();
  short small = t;
  for (int d = 16; d > 0; d /= 2) small += __shfl_xor_sync(FULL_MASK, small, d);
  double wide = number(t);
  for (int d = 16; d > 0; d /= 2) wide += __shfl_xor_sync(FULL_MASK, wide, d);
  __half half = __float2half(number(t));
  for (int d = 16; d > 0; d /= 2) half += __shfl_xor_sync(FULL_MASK, half, d);
  unsigned long long bits = 1ull << t % 64, either = t;
  for (int d = 16; d > 0; d /= 2) bits |= __shfl_xor_sync(FULL_MASK, bits, d);
  for (int d = 16; d > 0; d /= 2) either ^= __shfl_down_sync(FULL_MASK, either, d);
  note(out, t);
  box = t;
  // The value lies where all threads see it.
  for (int d = 4; d > 0; d /= 2) box += __shfl_xor_sync(FULL_MASK, box, d);
  float kept = box;
  sum_in_place(kept);
  sum_in_place(box);
  note(out, t);
  int width = 1 << t / 32 % 3 + 2;
  float parts = number(t);
  parts += __shfl_down_sync(FULL_MASK, parts, 2, width);
  parts += __shfl_down_sync(FULL_MASK, parts, 1, width);
  float far = number(t), none = far;
  for (int d = 100; d > 0; d /= 3) far += __shfl_down_sync(FULL_MASK, far, d);
  for (int d = 0; d > 0; d /= 2) none += __shfl_down_sync(FULL_MASK, none, d);
  for (int d = 9; d > 0; d -= 1) none += __shfl_down_sync(FULL_MASK, none, d);
  real[t] = small + (float)wide + __half2float(half) + (float)bits + (float)either + kept + parts + far + none;
}
static void case_types(long long* out, float* real) { clear(out), types_kernel<<<1, 128>>>(out, real); }

/// A block for each of many rows, whose sums go to one place.
__global__ void atomics_kernel(long long* out, float* real) {
  __shared__ float sums[32];
  int t = linear(), warps = blockDim.x / 32;
  float sum = 0;
  for (int i = t; i < 1000 + 77 * blockIdx.x; i += blockDim.x) sum += number(i);
  sum = sum_of_warp(sum);
  if (t % 32 == 0) sums[t / 32] = sum;
  if (t % 32 == 7) atomicAdd(&real[1], sum);
  __syncthreads();
  sum = sum_of_warp(t % 32 < warps ? sums[t % 32] : 0);
  if (t == 0) atomicAdd(real, sum);
}
static void case_atomics(long long* out, float* real) {
  cudaMemset(real, 0, 4096 * sizeof(float));
  clear(out), atomics_kernel<<<40, 256>>>(out, real);
}
