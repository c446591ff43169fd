// Kernels with functions that wait, which are put into them, and kernels in which nothing waits. Each thread writes down
// when its turn was, so that `out` shows the order in which threads run; `real` has their values. Both have 4096
// elements, which a case may leave unwritten.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda_runtime.h>

namespace cg = cooperative_groups;

#define FULL_MASK 0xffffffffu
#define SHUFFLE_XOR(var, distance) __shfl_xor_sync(uint32_t(-1), var, distance)
#define LEAVE_AT(t, n) if ((t) >= (n)) return
#define STEP(p) p += 1

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

__device__ __forceinline__ float warp_sum(float value) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(FULL_MASK, value, offset);
  return value;
}
__device__ float warp_max(float value) {
  for (int offset = 16; offset > 0; offset /= 2) value = fmaxf(value, __shfl_xor_sync(FULL_MASK, value, offset));
  return value;
}
template <typename T>
__inline__ __device__ T sum_by_macro(T value) {
  for (int distance = 16; distance > 0; distance >>= 1) value += SHUFFLE_XOR(value, distance);
  return value;
}
/// Its own arrays in shared memory for each type, and the same ones at each call.
template <typename T>
__inline__ __device__ T block_sum(T value, T neutral = T(0)) {
  static __shared__ T of_warps[32];
  int lane = threadIdx.x & 31;
  int warp = threadIdx.x >> 5;
  value = sum_by_macro<T>(value);
  if (lane == 0) of_warps[warp] = value;
  __syncthreads();
  value = (threadIdx.x < (blockDim.x + 31) / 32) ? of_warps[lane] : neutral;
  value = sum_by_macro(value);
  return value;
}
template <float (*OfWarp)(float)>
__device__ float of_block(float value, float neutral) {
  __shared__ float of_warps[32];
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = (blockDim.x + 31) / 32;
  value = OfWarp(value);
  if (lane == 0) of_warps[warp] = value;
  __syncthreads();
  value = OfWarp(lane < warps ? of_warps[lane] : neutral);
  __syncthreads();
  return value;
}
__device__ void halve(float* tree, int& turns) {
  for (int half = blockDim.x / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) tree[threadIdx.x] += tree[threadIdx.x + half];
    turns++;
    __syncthreads();
  }
}
struct Both {
  float sum, product;
};
__device__ Both both_of(float x) {
  float s = warp_sum(x);
  float p = warp_sum(x * x) * 2.0f;
  return Both{s, p};
}

__global__ void functions_kernel(long long* out, float* real) {
  int t = threadIdx.x;
  float value = number(t + blockIdx.x), x = value;
  note(out, t);
  float mean = warp_sum(x) / blockDim.x;
  note(out, 1000 + t);
  if (t < 64) x = warp_max(value);
  x += block_sum(mean);
  block_sum(mean);
  note(out, 2000 + t);
  double wide = value;
  wide = block_sum<double>(wide);
  int count = t;
  count = block_sum(count);
  Both pair = both_of(value);
  real[t] = x + mean, real[1024 + t] = wide, real[2048 + t] = count + pair.sum * pair.product;
}
static void case_functions(long long* out, float* real) {
  clear(out, real), functions_kernel<<<2, 256>>>(out, real);
}
static void case_functions_with_a_last_warp_of_three(long long* out, float* real) {
  clear(out, real), functions_kernel<<<1, 67>>>(out, real);
}
static void case_functions_of_one_thread(long long* out, float* real) {
  clear(out, real), functions_kernel<<<1, 1>>>(out, real);
}

__global__ void blocks_kernel(long long* out, float* real, int n) {
  extern __shared__ float tree[];
  int turns = 0;
  float top = -1.0f;
  for (int i = threadIdx.x; i < n; i += blockDim.x) top = fmaxf(top, number(i));
  top = block_sum<float>(top);
  tree[threadIdx.x] = top;
  __syncthreads();
  halve(tree, turns);
  for (int round = 0; round < 3; round++) {
    float part = number(round + threadIdx.x);
    part = block_sum(part);
    __syncthreads();
    note(out, 1000 * round + threadIdx.x);
    real[threadIdx.x] += part * tree[0] + turns;
  }
}
static void case_blocks(long long* out, float* real) { clear(out, real), blocks_kernel<<<2, 128, 512>>>(out, real, 1000); }

__global__ void pointers_kernel(long long* out, float* real) {
  float own = number(threadIdx.x * 3 + blockIdx.x);
  float of_all = of_block<warp_max>(own, -1.0f);
  own = of_block<warp_sum>(own * of_all, 0.0f);
  note(out, threadIdx.x);
  if (threadIdx.x == 0) atomicAdd(real, own);
  real[1 + threadIdx.x] = own + of_all;
}
static void case_pointers(long long* out, float* real) { clear(out, real), pointers_kernel<<<2, 160>>>(out, real); }

__global__ void groups_kernel(long long* out, float* real, int rows) {
  cg::thread_block block = cg::this_thread_block();
  cg::thread_block_tile<32> warp = cg::tiled_partition<32>(block);
  int row = blockIdx.x * warp.meta_group_size() + warp.meta_group_rank();
  if (row >= rows) return;
  float sum = 0.0f;
  for (int i = warp.thread_rank(); i < 100; i += warp.size()) sum += number(i + row);
  sum = cg::reduce(warp, sum, cg::plus<float>{});
  note(out, row * 32 + warp.thread_rank());
  float square = sum * number(block.thread_rank());
  float mean = cg::reduce(warp, square, cg::plus<float>()) / block.size();
  // Not a number stays or goes as in the header.
  float top = (threadIdx.x + row) % 5 == 0 ? sum - sum / 0.0f * 0.0f : square, least = top;
  top = cg::reduce(warp, top, cg::greater<float>{});
  least = cg::reduce(warp, least, cg::less<float>{});
  real[row * 32 + warp.thread_rank()] = sum + mean;
  real[1024 + row * 32 + warp.thread_rank()] = top;
  real[2048 + row * 32 + warp.thread_rank()] = least;
}
static void case_groups(long long* out, float* real) { clear(out, real), groups_kernel<<<3, dim3(16, 8)>>>(out, real, 10); }

__global__ void places_kernel(long long* out, float* real) {
  auto block = cg::this_thread_block();
  const int t = block.thread_index().x + block.group_dim().x * block.thread_index().y;
  __shared__ float own[96];
  own[t] = number(t + block.group_index().x);
  block.sync();
  note(out, t);
  real[block.group_index().x * block.size() + t] = own[(t + 5) % block.size()];
}
static void case_places(long long* out, float* real) { clear(out, real), places_kernel<<<3, dim3(32, 3)>>>(out, real); }

// Nothing waits in the following.

__global__ void elements_kernel(long long* out, float* real, int n) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  LEAVE_AT(t, n);
  note(out, t);
  for (int k = 0; k < 10; k++) {
    if (k == t % 7) return;
    real[t] += number(k + t);
  }
}
static void case_elements(long long* out, float* real) { clear(out, real), elements_kernel<<<5, 33>>>(out, real, 150); }

struct Pointers {
  float* of[2];
  int shift;
};
/// Threads change their own parameters.
__global__ void parameters_kernel(long long* out, float* real, int n, Pointers pointers) {
  out += 1, n -= threadIdx.x;
  STEP(real);
  pointers.of[threadIdx.x % 2] += threadIdx.x;
  pointers.shift += n;
  real[n] = pointers.of[0] - pointers.of[1];
  out[threadIdx.x] = n * 1000 + pointers.shift + (real - pointers.of[1]);
}
static void case_parameters(long long* out, float* real) {
  clear(out, real), parameters_kernel<<<1, dim3(50, 2, 2)>>>(out, real, 100, Pointers{{real, real}, 5});
}

/// Functions, classes and lambdas ask for the index themselves.
__device__ int own_index() { return threadIdx.x + 100 * threadIdx.y; }
__global__ void lambdas_kernel(long long* out, float* real) {
  struct Asks {
    __device__ int index() const { return threadIdx.x + blockDim.x * threadIdx.y; }
  };
  auto whose = [] { return (int)threadIdx.x; };
  auto early = [&](int k) {
    if (k > 3) return k * 2;
    return k;
  };
  int t = Asks{}.index();
  out[t] = own_index() * 1000 + whose() * 10 + early(t);
  real[t] = number(t);
}
static void case_lambdas(long long* out, float* real) { clear(out, real), lambdas_kernel<<<1, dim3(30, 5)>>>(out, real); }
__global__ void lambda_with_built_ins_kernel(long long* out, float* real) {
  auto whose = [=] { return (int)(threadIdx.x + blockIdx.x * blockDim.x + gridDim.x); };
  out[whose()] = whose();
  real[whose()] = number(threadIdx.x);
}
static void case_lambda_with_built_ins(long long* out, float* real) {
  clear(out, real), lambda_with_built_ins_kernel<<<3, 65>>>(out, real);
}
template <class... Values>
__global__ void pack_kernel(long long* out, float* real, Values... values) {
  out[threadIdx.x] = threadIdx.x + (values + ...);
  real[threadIdx.x] = sizeof...(values);
}
static void case_pack(long long* out, float* real) { clear(out, real), pack_kernel<<<1, 40>>>(out, real, 1, 2ll, (short)3); }
