// Calls of functions that wait in every place where a call may stand: some become part of their kernel, and none may change
// a value.
#include <cuda_runtime.h>

__constant__ float kScale = 1.5f;
__device__ float bias(int i) { return 1.0f / (1 + i % 37); }
__device__ float warp_sum(float value) {
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffffffffu, value, offset);
  return value;
}
__device__ float scaled_sum(float a, float b) {
  float kept = a;
  a = b * kScale;
  b = kept;
  a = warp_sum(a) + b;
  return a / 3;
}
__device__ float early(float x, int lane) {
  if (lane >= 32) return 0.0f;
  return warp_sum(x);
}
__device__ void normalise(float& x, float* rows, int n) {
  float total = warp_sum(x);
  if (n > 0) x = x / total;
  rows[threadIdx.x] = x;
  __syncthreads();
}
template <int kSteps, class T = float>
__device__ T partial(T x) {
#pragma unroll
  for (int step = 0; step < kSteps; step++) x += __shfl_down_sync(0xffffffffu, x, 1 << step);
  return x;
}
template <class T> __device__ T typed_sum(T value) {
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffffffffu, value, offset);
  return value;
}
namespace inner {
__device__ int warp_sum(int x) {
  for (int d = 1; d < 32; d *= 2) x += __shfl_xor_sync(0xffffffffu, x, d);
  return x;
}
__global__ void inner_kernel(long long* out, float* real) {
  int t = threadIdx.x;
  int s = inner::warp_sum(t);
  float f = ::warp_sum(bias(t));
  out[t] = s;
  real[t] = f;
}
}  // namespace inner
__device__ float block_total(float x) {
  __shared__ float parts[32];
  const int lane = threadIdx.x & 31, wid = threadIdx.x >> 5;
  x = warp_sum(x);
  if (!lane) parts[wid] = x;
  __syncthreads();
  float total = 0;
  for (int w = 0; w < blockDim.x / 32; w++) total += parts[w];
  __syncthreads();
  return total;
}

__global__ void places_kernel(float* real, int n) {
  int t = threadIdx.x;
  float kScale = 100.0f, value = bias(t), kept = value * 2, a = 3, b = 4;
  float x = value;
  real[t] = warp_sum(x) + warp_sum(kept);
  real[64 + t] = t < 32 ? warp_sum(x) : -1.0f;
  if (warp_sum(x) > 2) real[128 + t] = 1;
  for (int i = 0; i < warp_sum(1.0f) / 16; i++) real[192 + t] += i + 1;
  int k = 0;
  real[256 + t + k++] = warp_sum(x++);
  real[320 + t] = k + x;
  real[384 + t] = scaled_sum(b, a);
  real[448 + t] = scaled_sum(value, kept) * 2;
  float first = block_total(value), second = block_total(first + t);
  real[512 + t] = first + second;
  float alone = block_total(kScale);
  real[576 + t] = alone;
}
static void case_places(long long*, float* real) {
  cudaMemset(real, 0, 4096 * sizeof(float));
  places_kernel<<<1, 64>>>(real, 64);
}

__global__ void control_kernel(float* real, int n) {
  int t = threadIdx.x;
  float x = bias(t), y = 0;
  switch (n % 3) {
    case 0: y = warp_sum(x); break;
    case 1: y = warp_sum(x * 2); break;
    default: y = block_total(x);
  }
  real[t] = y;
  int rounds = 0;
  do {
    y = warp_sum(y) / 32;
    rounds++;
  } while (rounds < 3);
  real[64 + t] = y;
  if (t < 32)
    y = warp_sum(x + 1);
  else
    y = early(x, t);
  real[128 + t] = y;
  for (int i = 0; i < 3; i++) normalise(x, real + 192, i);
  real[256 + t] = x;
  real[320 + t] = partial<3>(x);
  real[384 + t] = partial<2, double>(x);
  const float total = block_total(x * n);
  if (t == 0) real[448] = total;
}
static void case_control(long long*, float* real) {
  for (int n = 6; n < 9; n++) {
    cudaMemset(real, 0, 4096 * sizeof(float));
    control_kernel<<<1, 64>>>(real, n);
  }
}

__global__ void plain_kernel(float* real, int n) {
  int t = threadIdx.x;
  float x = bias(t);
  float s = warp_sum(x);
  n += t;
  float total = block_total(s * n) / 2;
  x = scaled_sum(x, total);
  normalise(x, real + 64, n);
  float p = partial<4>(x);
  real[t] = p + x - s;
  if (t >= 32) return;
  real[128 + t] = warp_sum(real[t]);
}
static void case_plain(long long*, float* real) {
  cudaMemset(real, 0, 4096 * sizeof(float));
  plain_kernel<<<3, 64>>>(real, 5);
}
static void case_inner(long long* out, float* real) { inner::inner_kernel<<<1, 64>>>(out, real); }

// One call in each kernel.
__global__ void sum_kernel(float* real, int n) {
  int t = threadIdx.x;
  float x = bias(t);
  float s = warp_sum(x);
  real[t] = s;
}
static void case_sum(long long*, float* real) {
  cudaMemset(real, 0, 4096 * sizeof(float));
  sum_kernel<<<1, 64>>>(real, 64);
}
__global__ void hidden_parameter_kernel(float* real, int n) {
  int t = threadIdx.x;
  float x = bias(t);
  float value = warp_sum(x);
  real[t] = value;
}
static void case_hidden_parameter(long long*, float* real) {
  cudaMemset(real, 0, 4096 * sizeof(float));
  hidden_parameter_kernel<<<1, 64>>>(real, 64);
}
__global__ void quotient_kernel(float* real, int n) {
  int t = threadIdx.x;
  float x = bias(t);
  x = warp_sum(x) / n;
  real[t] = x;
}
static void case_quotient(long long*, float* real) {
  cudaMemset(real, 0, 4096 * sizeof(float));
  quotient_kernel<<<1, 64>>>(real, 64);
}
__global__ void swapped_kernel(float* real, int n) {
  int t = threadIdx.x;
  float x = bias(t);
  float a = 1, b = x;
  b = scaled_sum(b, a);
  real[t] = b;
}
static void case_swapped(long long*, float* real) {
  cudaMemset(real, 0, 4096 * sizeof(float));
  swapped_kernel<<<1, 64>>>(real, 64);
}
__global__ void reference_kernel(float* real, int n) {
  int t = threadIdx.x;
  float x = bias(t);
  normalise(x, real + 64, n);
  real[t] = x;
}
static void case_reference(long long*, float* real) {
  cudaMemset(real, 0, 4096 * sizeof(float));
  reference_kernel<<<1, 64>>>(real, 64);
}
__global__ void template_kernel(float* real, int n) {
  int t = threadIdx.x;
  float x = bias(t);
  float p = partial<4>(x);
  real[t] = p;
}
static void case_template(long long*, float* real) {
  cudaMemset(real, 0, 4096 * sizeof(float));
  template_kernel<<<1, 64>>>(real, 64);
}
__global__ void second_type_kernel(float* real, int n) {
  int t = threadIdx.x;
  float x = bias(t);
  double p = partial<4, double>(x);
  real[t] = p;
}
static void case_second_type(long long*, float* real) {
  cudaMemset(real, 0, 4096 * sizeof(float));
  second_type_kernel<<<1, 64>>>(real, 64);
}
__global__ void total_kernel(float* real, int n) {
  int t = threadIdx.x;
  float x = bias(t);
  float total = block_total(x * n) / 2;
  real[t] = total;
}
static void case_total(long long*, float* real) {
  cudaMemset(real, 0, 4096 * sizeof(float));
  total_kernel<<<1, 64>>>(real, 64);
}
__global__ void totals_kernel(float* real, int n) {
  int t = threadIdx.x;
  float x = bias(t);
  float total = block_total(x);
  float m = block_total(total - x);
  real[t] = m;
}
static void case_totals(long long*, float* real) {
  cudaMemset(real, 0, 4096 * sizeof(float));
  totals_kernel<<<1, 64>>>(real, 64);
}
__global__ void do_while_kernel(float* real, int n) {
  int t = threadIdx.x;
  float x = bias(t);
  float y = x;
  int r = 0;
  do {
    y = warp_sum(y) / 32;
    r++;
  } while (r < 3);
  real[t] = y;
}
static void case_do_while(long long*, float* real) {
  cudaMemset(real, 0, 4096 * sizeof(float));
  do_while_kernel<<<1, 64>>>(real, 64);
}
__global__ void branches_kernel(float* real, int n) {
  int t = threadIdx.x;
  float x = bias(t);
  float y = 0;
  if (t < 32) y = warp_sum(x);
  else y = 2;
  real[t] = y;
}
static void case_branches(long long*, float* real) {
  cudaMemset(real, 0, 4096 * sizeof(float));
  branches_kernel<<<1, 64>>>(real, 64);
}
__global__ void loop_kernel(float* real, int n) {
  int t = threadIdx.x;
  float x = bias(t);
  float y = x;
  for (int i = 0; i < 3; i++) y = warp_sum(y + i);
  real[t] = y;
}
static void case_loop(long long*, float* real) {
  cudaMemset(real, 0, 4096 * sizeof(float));
  loop_kernel<<<1, 64>>>(real, 64);
}
__global__ void index_kernel(float* real, int n) {
  int t = threadIdx.x;
  float x = bias(t);
  int k = 0;
  real[t + k++] = warp_sum(x);
}
static void case_index(long long*, float* real) {
  cudaMemset(real, 0, 4096 * sizeof(float));
  index_kernel<<<1, 64>>>(real, 64);
}
__global__ void left_early_kernel(float* real, int n) {
  int t = threadIdx.x;
  float x = bias(t);
  if (t >= 32) return;
  real[t] = warp_sum(x);
}
static void case_left_early(long long*, float* real) {
  cudaMemset(real, 0, 4096 * sizeof(float));
  left_early_kernel<<<1, 64>>>(real, 64);
}
__global__ void dropped_kernel(float* real, int n) {
  int t = threadIdx.x;
  float x = bias(t);
  warp_sum(x);
  real[t] = x;
}
static void case_dropped(long long*, float* real) {
  cudaMemset(real, 0, 4096 * sizeof(float));
  dropped_kernel<<<1, 64>>>(real, 64);
}
__global__ void second_declarator_kernel(float* real, int n) {
  int t = threadIdx.x;
  float x = bias(t);
  float a = 1, c = warp_sum(x);
  real[t] = a + c;
}
static void case_second_declarator(long long*, float* real) {
  cudaMemset(real, 0, 4096 * sizeof(float));
  second_declarator_kernel<<<1, 64>>>(real, 64);
}
__global__ void constant_kernel(float* real, int n) {
  int t = threadIdx.x;
  float x = bias(t);
  const float c = warp_sum(x);
  real[t] = c;
}
static void case_constant(long long*, float* real) {
  cudaMemset(real, 0, 4096 * sizeof(float));
  constant_kernel<<<1, 64>>>(real, 64);
}
__global__ void literal_kernel(float* real, int n) {
  int t = threadIdx.x;
  float x = bias(t);
  float c = warp_sum(1.0f);
  real[t] = c;
}
static void case_literal(long long*, float* real) {
  cudaMemset(real, 0, 4096 * sizeof(float));
  literal_kernel<<<1, 64>>>(real, 64);
}
__global__ void two_returns_kernel(float* real, int n) {
  int t = threadIdx.x;
  float x = bias(t);
  float c = early(x, t);
  real[t] = c;
}
static void case_two_returns(long long*, float* real) {
  cudaMemset(real, 0, 4096 * sizeof(float));
  two_returns_kernel<<<1, 64>>>(real, 64);
}
__global__ void hidden_constant_kernel(float* real, int n) {
  int t = threadIdx.x;
  float x = bias(t);
  float kScale = 3;
  float c = scaled_sum(x, kScale);
  real[t] = c;
}
static void case_hidden_constant(long long*, float* real) {
  cudaMemset(real, 0, 4096 * sizeof(float));
  hidden_constant_kernel<<<1, 64>>>(real, 64);
}
__global__ void ended_block_kernel(float* real, int n) {
  int t = threadIdx.x;
  float x = bias(t);
  {
    double x = 1.0 / (3 + t);
    real[64 + t] = x;
  }
  float s = typed_sum(x);
  real[t] = s;
}
static void case_ended_block(long long*, float* real) {
  cudaMemset(real, 0, 4096 * sizeof(float));
  ended_block_kernel<<<1, 64>>>(real, 64);
}
__global__ void loop_head_kernel(float* real, int n) {
  int t = threadIdx.x;
  float x = bias(t);
  for (double x = 0.25; x < 1; x += 0.25) real[64 + t] += x;
  float s = typed_sum(x);
  for (double x = 1.0 / (3 + t); x < 2; x += 1) s += typed_sum(x);
  real[t] = s;
}
static void case_loop_head(long long*, float* real) {
  cudaMemset(real, 0, 4096 * sizeof(float));
  loop_head_kernel<<<1, 64>>>(real, 64);
}

// Threads in turn, with parameters, returns and lambdas of their own.
struct Step { float by[3]; int n; };
template <class F> __device__ float applied(F f, float x) { return f(x); }
__global__ void turn_kernel(float* real, Step step, int n, const float* base) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  step.by[i % 3] += i;
  n -= i;
  base += i;
  auto twice = [&](float x) { return 2 * x + step.by[i % 3]; };
  auto more = [=](float x) mutable { n++; return x + n; };
  for (int k = 0; k < 3; k++) {
    if (k == 2 && i % 5 == 0) return;
    real[3 * i + k] = applied(twice, bias(k)) + more(step.by[k]) + (base - real) + step.n;
  }
  static const float table[2] = {0.5f, 0.25f};
  real[2000 + i] = table[i & 1] + blockDim.x + gridDim.y;
}
static void case_turn(long long*, float* real) {
  cudaMemset(real, 0, 4096 * sizeof(float));
  turn_kernel<<<5, 37>>>(real, Step{{1, 2, 3}, 4}, 170, real);
}

// A group that goes to a function, too.
#include <cooperative_groups.h>
__device__ int rank_in(const cooperative_groups::thread_block& block) { return block.thread_rank(); }
__global__ void group_kernel(float* real) {
  namespace cg = cooperative_groups;
  auto block = cg::this_thread_block();
  __shared__ float own[64];
  own[rank_in(block)] = bias(block.thread_rank() % 3);
  block.sync();
  real[block.thread_rank()] = own[63 - block.thread_rank()];
}
static void case_group(long long*, float* real) {
  cudaMemset(real, 0, 4096 * sizeof(float));
  group_kernel<<<1, 64>>>(real);
}
