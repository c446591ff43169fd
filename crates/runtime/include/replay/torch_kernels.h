// PyTorch's names for kernels: numbers of 16 bits, accessors, atomics. Host code and NVRTC share this header.
// PyTorch C++ API: "c10::Half", "c10::BFloat16", "at::TensorAccessor"; ATen/cuda/Atomic.cuh.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#ifdef __CUDACC_RTC__
#include <replay_nvrtc/algorithm>
#include <replay_nvrtc/cassert>
#include <replay_nvrtc/cstddef>
#include <replay_nvrtc/cstdint>
#include <replay_nvrtc/limits>
#include <replay_nvrtc/type_traits>
#else
#include <limits>
#include <stddef.h>
#include <stdint.h>

#include "replay/atomics.h"
#include "replay/real.h"
#endif

#define C10_HOST_DEVICE __host__ __device__
#define C10_DEVICE __device__
#define C10_HOST __host__
#define C10_ALWAYS_INLINE inline __attribute__((always_inline))
#define C10_LAUNCH_BOUNDS_1(threads) __launch_bounds__(threads)
#define C10_LAUNCH_BOUNDS_2(threads, blocks) __launch_bounds__(threads, blocks)
#define C10_WARP_SIZE 32
#define CUDA_KERNEL_ASSERT(condition) assert(condition)
#define CUDA_KERNEL_LOOP_TYPE(i, n, index_type)                                                  \
  int64_t replay_index_##i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;                      \
  for (index_type i = (index_type)replay_index_##i; replay_index_##i < (n);                       \
       replay_index_##i += (int64_t)blockDim.x * gridDim.x, i = (index_type)replay_index_##i)
#define CUDA_KERNEL_LOOP(i, n) CUDA_KERNEL_LOOP_TYPE(i, n, int)

namespace replay_torch {
#ifdef __CUDACC_RTC__
using real = float;
#else
using real = ::replay_rt::real;
#endif

template <class, class>
constexpr bool is_same_type = false;
template <class T>
constexpr bool is_same_type<T, T> = true;
template <bool Holds, class T>
struct when {};
template <class T>
struct when<true, T> {
  using type = T;
};
template <class T>
struct number {
  static constexpr bool floats = false, counts = false, holds = false;
};
template <>
struct number<float> {
  static constexpr bool floats = true, counts = false, holds = true;
};
template <>
struct number<double> : number<float> {};
template <>
struct number<int> {
  static constexpr bool floats = false, counts = true, holds = true;
};
template <> struct number<bool> : number<int> {};
template <> struct number<char> : number<int> {};
template <> struct number<signed char> : number<int> {};
template <> struct number<unsigned char> : number<int> {};
template <> struct number<short> : number<int> {};
template <> struct number<unsigned short> : number<int> {};
template <> struct number<unsigned> : number<int> {};
template <> struct number<long> : number<int> {};
template <> struct number<unsigned long> : number<int> {};
template <> struct number<long long> : number<int> {};
template <> struct number<unsigned long long> : number<int> {};
}  // namespace replay_torch

namespace c10 {
// A number of 16 bits. It computes in float and rounds each result, as PyTorch's operators do.
#define REPLAY_NARROW(N, Bits, put, get)                                                          \
  struct alignas(sizeof(Bits)) N {                                                                \
    Bits replay_bits;                                                                             \
    N() = default;                                                                                \
    __host__ __device__ N(::replay_torch::real value) : replay_bits(put(value)) {}                \
    __host__ __device__ N(const Bits& bits) : replay_bits(bits) {}                                \
    __host__ __device__ operator ::replay_torch::real() const { return get(replay_bits); }        \
    __host__ __device__ operator Bits() const { return replay_bits; }                             \
  };                                                                                              \
  __host__ __device__ inline ::replay_torch::real replay_wide(N x) { return x; }                  \
  __device__ inline N __ldg(const N* address) { return *address; }                                \
  __host__ __device__ inline N operator-(N x) { return N(-replay_wide(x)); }                      \
  REPLAY_NARROW_OPERATOR(N, +)                                                                    \
  REPLAY_NARROW_OPERATOR(N, -)                                                                    \
  REPLAY_NARROW_OPERATOR(N, *)                                                                    \
  REPLAY_NARROW_OPERATOR(N, /)                                                                    \
  REPLAY_NARROW_COMPARISON(N, ==)                                                                 \
  REPLAY_NARROW_COMPARISON(N, !=)                                                                 \
  REPLAY_NARROW_COMPARISON(N, <)                                                                  \
  REPLAY_NARROW_COMPARISON(N, <=)                                                                 \
  REPLAY_NARROW_COMPARISON(N, >)                                                                  \
  REPLAY_NARROW_COMPARISON(N, >=)
#define REPLAY_NARROW_OPERATOR(N, op)                                                             \
  __host__ __device__ inline N operator op(N a, N b) {                                            \
    return N(replay_wide(a) op replay_wide(b));                                                   \
  }                                                                                               \
  __host__ __device__ inline N& operator op##=(N& a, N b) { return a = a op b; }                  \
  template <class T>                                                                              \
  __host__ __device__ typename ::replay_torch::when<::replay_torch::number<T>::floats, T>::type   \
  operator op(N a, T b) {                                                                         \
    return static_cast<T>(replay_wide(a)) op b;                                                   \
  }                                                                                               \
  template <class T>                                                                              \
  __host__ __device__ typename ::replay_torch::when<::replay_torch::number<T>::floats, T>::type   \
  operator op(T a, N b) {                                                                         \
    return a op static_cast<T>(replay_wide(b));                                                   \
  }                                                                                               \
  template <class T>                                                                              \
  __host__ __device__ typename ::replay_torch::when<::replay_torch::number<T>::counts, N>::type   \
  operator op(N a, T b) {                                                                         \
    return a op N(static_cast<::replay_torch::real>(b));                                          \
  }                                                                                               \
  template <class T>                                                                              \
  __host__ __device__ typename ::replay_torch::when<::replay_torch::number<T>::counts, N>::type   \
  operator op(T a, N b) {                                                                         \
    return N(static_cast<::replay_torch::real>(a)) op b;                                          \
  }                                                                                               \
  template <class T>                                                                              \
  __host__ __device__ typename ::replay_torch::when<::replay_torch::number<T>::floats, T>::type&  \
  operator op##=(T& a, N b) {                                                                     \
    return a = a op b;                                                                            \
  }
#define REPLAY_NARROW_COMPARISON(N, op)                                                           \
  __host__ __device__ inline bool operator op(N a, N b) {                                         \
    return replay_wide(a) op replay_wide(b);                                                      \
  }                                                                                               \
  template <class T>                                                                              \
  __host__ __device__ typename ::replay_torch::when<::replay_torch::number<T>::holds, bool>::type \
  operator op(N a, T b) {                                                                         \
    return replay_wide(a) op b;                                                                   \
  }                                                                                               \
  template <class T>                                                                              \
  __host__ __device__ typename ::replay_torch::when<::replay_torch::number<T>::holds, bool>::type \
  operator op(T a, N b) {                                                                         \
    return a op replay_wide(b);                                                                   \
  }
REPLAY_NARROW(Half, __half, __float2half, __half2float)
REPLAY_NARROW(BFloat16, __nv_bfloat16, __float2bfloat16, __bfloat162float)
#undef REPLAY_NARROW
#undef REPLAY_NARROW_OPERATOR
#undef REPLAY_NARROW_COMPARISON
}  // namespace c10

namespace at {
using c10::BFloat16;
using c10::Half;

/// The range of `T`; its bounds are infinities where it has some. ATen/NumericLimits.cuh.
template <class T>
struct numeric_limits {
  __host__ __device__ static constexpr T lowest() { return std::numeric_limits<T>::lowest(); }
  __host__ __device__ static constexpr T max() { return std::numeric_limits<T>::max(); }
  __host__ __device__ static constexpr T lower_bound() {
    if constexpr (std::numeric_limits<T>::is_integer) return lowest();
    else return -std::numeric_limits<T>::infinity();
  }
  __host__ __device__ static constexpr T upper_bound() {
    if constexpr (std::numeric_limits<T>::is_integer) return max();
    else return std::numeric_limits<T>::infinity();
  }
};
#define REPLAY_TORCH_LIMITS(type, most)                                                              \
  template <>                                                                                        \
  struct numeric_limits<type> {                                                                      \
    __host__ __device__ static type lowest() { return type(-most); }                                 \
    __host__ __device__ static type max() { return type(most); }                                     \
    __host__ __device__ static type lower_bound() { return type(-std::numeric_limits<float>::infinity()); } \
    __host__ __device__ static type upper_bound() { return type(std::numeric_limits<float>::infinity()); }  \
  };
REPLAY_TORCH_LIMITS(Half, 65504.0f)
REPLAY_TORCH_LIMITS(BFloat16, 3.38953139e38f)
#undef REPLAY_TORCH_LIMITS

/// The type of computations with values of `T`.
template <class T>
struct OpMathType {
  using type = T;
};
template <>
struct OpMathType<Half> {
  using type = replay_torch::real;
};
template <>
struct OpMathType<BFloat16> {
  using type = replay_torch::real;
};
template <>
struct OpMathType<__half> {
  using type = replay_torch::real;
};
template <>
struct OpMathType<__nv_bfloat16> {
  using type = replay_torch::real;
};
template <class T>
using opmath_type = typename OpMathType<T>::type;

/// The type of sums of values of `T`: on a GPU integers are summed in 64 bits.
template <class T, bool IsCuda>
struct AccumulateType {
  using type = opmath_type<T>;
};
template <bool IsCuda> struct AccumulateType<signed char, IsCuda> { using type = int64_t; };
template <bool IsCuda> struct AccumulateType<unsigned char, IsCuda> { using type = int64_t; };
template <bool IsCuda> struct AccumulateType<short, IsCuda> { using type = int64_t; };
template <bool IsCuda> struct AccumulateType<int, IsCuda> { using type = int64_t; };
template <class T, bool IsCuda>
using acc_type = typename AccumulateType<T, IsCuda>::type;

template <class T>
struct DefaultPtrTraits {
  typedef T* PtrType;
};
template <class T>
struct RestrictPtrTraits {
  typedef T* __restrict__ PtrType;
};

/// Elements by their indices, with sizes and strides of somebody else.
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits, class Index = int64_t>
class TensorAccessor {
 public:
  typedef typename Traits<T>::PtrType PtrType;
  __host__ __device__ TensorAccessor(PtrType data, const Index* sizes, const Index* strides)
      : data_(data), sizes_(sizes), strides_(strides) {}
  __host__ __device__ TensorAccessor<T, N - 1, Traits, Index> operator[](Index i) const {
    return TensorAccessor<T, N - 1, Traits, Index>(data_ + strides_[0] * i, sizes_ + 1, strides_ + 1);
  }
  __host__ __device__ Index size(Index dimension) const { return sizes_[dimension]; }
  __host__ __device__ Index stride(Index dimension) const { return strides_[dimension]; }
  __host__ __device__ PtrType data() const { return data_; }

 private:
  PtrType data_;
  const Index* sizes_;
  const Index* strides_;
};
template <class T, template <class> class Traits, class Index>
class TensorAccessor<T, 1, Traits, Index> {
 public:
  typedef typename Traits<T>::PtrType PtrType;
  __host__ __device__ TensorAccessor(PtrType data, const Index* sizes, const Index* strides)
      : data_(data), sizes_(sizes), strides_(strides) {}
  __host__ __device__ T& operator[](Index i) const { return data_[strides_[0] * i]; }
  __host__ __device__ Index size(Index dimension) const { return sizes_[dimension]; }
  __host__ __device__ Index stride(Index dimension) const { return strides_[dimension]; }
  __host__ __device__ PtrType data() const { return data_; }

 private:
  PtrType data_;
  const Index* sizes_;
  const Index* strides_;
};

/// The same with sizes and strides of its own, for the argument of a kernel.
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits, class Index = int64_t>
class GenericPackedTensorAccessor {
 public:
  typedef typename Traits<T>::PtrType PtrType;
  GenericPackedTensorAccessor() = default;
  template <class From>
  __host__ __device__ GenericPackedTensorAccessor(PtrType data, const From* sizes, const From* strides)
      : data_(data) {
    for (size_t i = 0; i < N; i++) {
      sizes_[i] = static_cast<Index>(sizes[i]);
      strides_[i] = static_cast<Index>(strides[i]);
    }
  }
  __host__ __device__ decltype(auto) operator[](Index i) const {
    return TensorAccessor<T, N, Traits, Index>(data_, sizes_, strides_)[i];
  }
  __host__ __device__ Index size(Index dimension) const { return sizes_[dimension]; }
  __host__ __device__ Index stride(Index dimension) const { return strides_[dimension]; }
  __host__ __device__ PtrType data() const { return data_; }

 private:
  PtrType data_;
  Index sizes_[N];
  Index strides_[N];
};
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits>
using PackedTensorAccessor32 = GenericPackedTensorAccessor<T, N, Traits, int32_t>;
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits>
using PackedTensorAccessor64 = GenericPackedTensorAccessor<T, N, Traits, int64_t>;

template <class T>
__host__ __device__ constexpr T ceil_div(T a, T b) {
  return (a + b - 1) / b;
}
template <class T>
__host__ __device__ constexpr T round_up(T a, T b) {
  return ceil_div(a, b) * b;
}
}  // namespace at

namespace torch {
using at::BFloat16;
using at::DefaultPtrTraits;
using at::GenericPackedTensorAccessor;
using at::Half;
using at::PackedTensorAccessor32;
using at::PackedTensorAccessor64;
using at::RestrictPtrTraits;
using at::TensorAccessor;
}  // namespace torch

// Namespaces that sources open.
namespace c10 {
namespace cuda {}
}  // namespace c10
namespace at {
namespace cuda {}
namespace native {}
}  // namespace at
namespace torch {
namespace autograd {}
namespace cuda {}
namespace indexing {}
}  // namespace torch
namespace pybind11 {
namespace literals {}
}  // namespace pybind11
namespace py = pybind11;

// Templates: an extension's own functions for these types, which no header of CUDA has, take precedence.
template <class T>
__device__ inline typename replay_torch::when<replay_torch::is_same_type<T, at::Half>, T>::type atomicAdd(
    T* address, T value) {
  return atomicAdd(reinterpret_cast<__half*>(address), static_cast<__half>(value));
}
template <class T>
__device__ inline typename replay_torch::when<replay_torch::is_same_type<T, at::BFloat16>, T>::type atomicAdd(
    T* address, T value) {
  return atomicAdd(reinterpret_cast<__nv_bfloat16*>(address), static_cast<__nv_bfloat16>(value));
}
template <class T, class V>
__device__ inline T gpuAtomicAdd(T* address, V value) {
  return atomicAdd(address, static_cast<T>(value));
}
template <class V>
__device__ inline long gpuAtomicAdd(long* address, V value) {
  return static_cast<long>(atomicAdd(reinterpret_cast<unsigned long long*>(address),
                                     static_cast<unsigned long long>(value)));
}
template <class T, class V>
__device__ inline void gpuAtomicAddNoReturn(T* address, V value) {
  gpuAtomicAdd(address, value);
}
namespace at {
namespace native {
template <class T, class Index>
__device__ inline void fastAtomicAdd(T* tensor, Index index, Index, T value, bool) {
  gpuAtomicAdd(tensor + index, value);
}
}  // namespace native
}  // namespace at

// ATen/cuda/detail: a tensor of any number of dimensions in a kernel, and the grids of CUDA_KERNEL_LOOP.
namespace at {
namespace cuda {
namespace detail {
constexpr int MAX_TENSORINFO_DIMS = 25;
template <class T, class Index>
struct TensorInfo {
  TensorInfo() = default;
  __host__ __device__ bool isContiguous() const { return dims == 1 && strides[0] == 1; }
  T* data;
  Index sizes[MAX_TENSORINFO_DIMS];
  Index strides[MAX_TENSORINFO_DIMS];
  int dims;
};
/// The offset of the element number `linear`, in the order of the dimensions. `Dims` is their number, or -1.
template <class T, class Index, int Dims>
struct IndexToOffset {
  static __host__ __device__ Index get(Index linear, const TensorInfo<T, Index>& info) {
    Index offset = 0;
    for (int i = (Dims < 0 ? info.dims : Dims) - 1; i > 0; --i) {
      offset += linear % info.sizes[i] * info.strides[i];
      linear /= info.sizes[i];
    }
    return offset + linear * info.strides[0];
  }
};
constexpr int CUDA_NUM_THREADS = 1024;
__host__ __device__ inline int GET_BLOCKS(int64_t count, int64_t threads = CUDA_NUM_THREADS) {
  return static_cast<int>((count - 1) / threads + 1);
}
}  // namespace detail
}  // namespace cuda
}  // namespace at

// ATen/cuda/DeviceUtils.cuh. On the CPU each knows the line of the user's that calls it.
#ifdef __CUDACC_RTC__
#define REPLAY_WARP_SITE
#define REPLAY_WARP_LINE
#else
#define REPLAY_WARP_SITE , REPLAY_SITE_PARAMS
#define REPLAY_WARP_LINE , file, line
#endif
template <class T>
__device__ inline T WARP_SHFL(T value, int lane, int width = warpSize, unsigned mask = 0xffffffff REPLAY_WARP_SITE) {
  return __shfl_sync(mask, value, lane, width REPLAY_WARP_LINE);
}
template <class T>
__device__ inline T WARP_SHFL_UP(T value, unsigned delta, int width = warpSize, unsigned mask = 0xffffffff REPLAY_WARP_SITE) {
  return __shfl_up_sync(mask, value, delta, width REPLAY_WARP_LINE);
}
template <class T>
__device__ inline T WARP_SHFL_DOWN(T value, unsigned delta, int width = warpSize, unsigned mask = 0xffffffff REPLAY_WARP_SITE) {
  return __shfl_down_sync(mask, value, delta, width REPLAY_WARP_LINE);
}
template <class T>
__device__ inline T WARP_SHFL_XOR(T value, int lane_mask, int width = warpSize, unsigned mask = 0xffffffff REPLAY_WARP_SITE) {
  return __shfl_xor_sync(mask, value, lane_mask, width REPLAY_WARP_LINE);
}
__device__ inline unsigned WARP_BALLOT(int predicate, unsigned mask = 0xffffffff REPLAY_WARP_SITE) {
  return __ballot_sync(mask, predicate REPLAY_WARP_LINE);
}
__device__ inline void WARP_SYNC(unsigned mask = 0xffffffff REPLAY_WARP_SITE) {
  __syncwarp(mask REPLAY_WARP_LINE);
}
#undef REPLAY_WARP_SITE
#undef REPLAY_WARP_LINE
