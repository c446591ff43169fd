// In front of random kernels: functions that wait, as libraries write them, and a list of turns in `out`.
#include <cuda_runtime.h>

#define FULL_MASK 0xffffffffu

/// Appends `what` to the list in `out`, as whoever comes next.
__device__ void note(long long* out, int what) {
  int at = (int)out[0] + 1;
  if (at < 4096) out[at] = what, out[0] = at;
}
__device__ float number(int t) { return 1.0f / (3 + (t & 1023) * 7 % 1000); }
__device__ __forceinline__ float bound(float x) { return fminf(fmaxf(x, -64.0f), 64.0f); }

__inline__ __device__ float warp_sum(float x) {
#pragma unroll
  for (int offset = 16; offset > 0; offset >>= 1) x += __shfl_xor_sync(FULL_MASK, x, offset);
  return x;
}
template <typename T>
__device__ __forceinline__ T warp_largest(T x) {
  for (int offset = 16; offset > 0; offset /= 2) {
    const T other = __shfl_down_sync(FULL_MASK, x, offset);
    x = other > x ? other : x;
  }
  return __shfl_sync(FULL_MASK, x, 0);
}
__device__ float warp_scan(float x, int lane) {
  for (int d = 1; d < 32; d *= 2) {
    float below = __shfl_up_sync(FULL_MASK, x, d);
    if (lane >= d) x += below;
  }
  return x;
}
template <typename T>
__device__ T block_sum(T x, int t, int threads) {
  __shared__ T of_warps[32];
  x = (T)warp_sum((float)x);
  __syncthreads();
  if (t % 32 == 0) of_warps[t / 32] = x;
  __syncthreads();
  x = t < (threads + 31) / 32 ? of_warps[t] : T(0);
  if (t < 32) x = (T)warp_sum((float)x);
  if (t == 0) of_warps[0] = x;
  __syncthreads();
  return of_warps[0];
}
__device__ void welford(float& mean, float& m2, float& count) {
  for (int d = 16; d > 0; d /= 2) {
    const float mean_b = __shfl_down_sync(FULL_MASK, mean, d);
    const float m2_b = __shfl_down_sync(FULL_MASK, m2, d);
    const float count_b = __shfl_down_sync(FULL_MASK, count, d);
    const float total = count + count_b, delta = mean_b - mean;
    mean += total > 0 ? delta * count_b / total : 0;
    m2 += m2_b + (total > 0 ? delta * delta * count * count_b / total : 0);
    count = total;
  }
}
