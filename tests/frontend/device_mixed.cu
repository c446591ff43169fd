#include <cuda_runtime.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <algorithm>
#include <cassert>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>
using namespace std;
using std::vector;
namespace cg = cooperative_groups;
#define CUDA_CHECK(call) do { if ((call) != cudaSuccess) { printf("%s:%d\n", __FILE__, __LINE__); exit(1); } } while (0)
#define DEFINE_KERNEL(name, op) __global__ void name(float* x) { x[threadIdx.x] op 2.f; }
#define REGISTER(name) static int registered_##name = register_kernel(#name)
typedef void (*Callback)(const std::string&);
enum class Reduction { None, Mean };
constexpr int BLOCK = 256;
static const float SCALE = 0.5f;
static int launches = 0;
static std::vector<float> history;
static FILE* log_file = nullptr;
static const int from_host = static_cast<int>(1.5);
__constant__ float table[4];
__device__ int counter = 0;
struct Params { const float* x; float scale; int n; float at(int i) const; __host__ __device__ float twice() const { return 2 * scale; } };
struct Config { std::string name; int n; };
template <typename T> struct Traits { static constexpr int width = sizeof(T); using type = std::conditional_t<std::is_same<T, float>::value, float, double>; };
class Timer {
 public:
  Timer() : start_{0}, end_(0) { cudaEventCreate(&a_); }
  ~Timer() { cudaEventDestroy(a_); }
 private:
  cudaEvent_t a_;
  int start_, end_;
};
int register_kernel(const char* name);
DEFINE_KERNEL(add_two, +=)
DEFINE_KERNEL(times_two, *=);
REGISTER(add_two);
template <typename T> __device__ __forceinline__ T warp_sum(T x) {
  for (int o = 16; o > 0; o >>= 1) x += __shfl_xor_sync(0xffffffffu, x, o);
  return x;
}
constexpr __host__ __device__ int ceil_div(int a, int b) { return (a + b - 1) / b; }
inline int host_helper(int n) { return n * 2 + launches; }
static const int derived = host_helper(3);
namespace detail {
template <typename T, int N>
__global__ void __launch_bounds__(N) loss_kernel(const T* __restrict__ x, Params p, float* out, uint64_t n) {
  __shared__ float scratch[N / 32];
  extern __shared__ float dynamic[];
  auto block = cg::this_thread_block();
  auto tile = cg::tiled_partition<32>(block);
  float m = -INFINITY;
  for (uint64_t i = threadIdx.x; i < n; i += N) m = std::max(m, static_cast<float>(x[i]));
  m = cg::reduce(tile, m, cg::greater<float>());
  if (tile.thread_rank() == 0) scratch[threadIdx.x / 32] = m;
  block.sync();
  assert(n > 0);
  dynamic[threadIdx.x] = warp_sum(std::exp(m) + p.twice()) * SCALE * table[0] + std::numeric_limits<float>::max() + FLT_MIN;
  if (threadIdx.x == 0) { out[0] = dynamic[0] + scratch[0]; atomicAdd(&counter, ceil_div(3, 2)); printf("%f\n", out[0]); }
}
void launch(const __nv_bfloat16* x, Params p, float* out, uint64_t n) {
  loss_kernel<__nv_bfloat16, BLOCK><<<1, BLOCK, BLOCK * sizeof(float)>>>(x, p, out, n);
#ifdef DEBUG
  CUDA_CHECK(cudaDeviceSynchronize());
#endif
}
}  // namespace detail
template __global__ void detail::loss_kernel<float, 128>(const float*, Params, float*, uint64_t);
extern "C" {
__global__ void plain(float* x) { x[0] = 1; }
void c_host(float* x) { plain<<<1, 1>>>(x); }
}
int main(int argc, char** argv) {
  std::vector<float> v(3);
  auto f = [&](float* x) { plain<<<1, 1>>>(x); };
  return 0;
}
