// A row and its shifted self, as scans and convolutions load them: a class of traits counts the bytes of a vector and of shared
// memory, and threads exchange vectors there.
#include <cub/block/block_load.cuh>
#include <cub/block/block_store.cuh>

template <int Bytes> struct BytesToType {};
template <> struct BytesToType<16> {
  using Type = uint4;
  static_assert(sizeof(Type) == 16);
};
template <> struct BytesToType<8> {
  using Type = uint64_t;
  static_assert(sizeof(Type) == 8);
};

template <int kNThreads_, bool kIsVecLoad_, typename input_t_>
struct Shift_traits {
  using input_t = input_t_;
  static constexpr int kNThreads = kNThreads_;
  static constexpr int kNBytes = sizeof(input_t);
  static_assert(kNBytes == 2 || kNBytes == 4);
  static constexpr int kNElts = kNBytes == 4 ? 4 : 8;
  static constexpr bool kIsVecLoad = kIsVecLoad_;
  using vec_t = typename BytesToType<kNBytes * kNElts>::Type;
  using BlockLoadT = cub::BlockLoad<input_t, kNThreads, kNElts, cub::BLOCK_LOAD_WARP_TRANSPOSE>;
  using BlockLoadVecT = cub::BlockLoad<vec_t, kNThreads, 1, cub::BLOCK_LOAD_DIRECT>;
  using BlockStoreT = cub::BlockStore<input_t, kNThreads, kNElts, cub::BLOCK_STORE_WARP_TRANSPOSE>;
  static constexpr int kSmemIOSize =
      std::max({sizeof(typename BlockLoadT::TempStorage), sizeof(typename BlockStoreT::TempStorage)});
  static constexpr int kSmemExchangeSize = kNThreads * kNBytes * kNElts;
  static constexpr int kSmemSize = kSmemIOSize + kSmemExchangeSize;
};

template <typename Ktraits>
__global__ __launch_bounds__(Ktraits::kNThreads) void shift_kernel(float* out, const float* inp, int length) {
  constexpr int kNThreads = Ktraits::kNThreads, kNElts = Ktraits::kNElts;
  using input_t = typename Ktraits::input_t;
  using vec_t = typename Ktraits::vec_t;
  extern __shared__ char smem_[];
  auto& smem_load = reinterpret_cast<typename Ktraits::BlockLoadT::TempStorage&>(smem_);
  auto& smem_load_vec = reinterpret_cast<typename Ktraits::BlockLoadVecT::TempStorage&>(smem_);
  auto& smem_store = reinterpret_cast<typename Ktraits::BlockStoreT::TempStorage&>(smem_);
  vec_t* smem_exchange = reinterpret_cast<vec_t*>(smem_ + Ktraits::kSmemIOSize);

  const int tidx = threadIdx.x;
  const input_t* x = reinterpret_cast<const input_t*>(inp) + blockIdx.x * length;
  if (tidx == 0) {
    input_t zeros[kNElts] = {0};
    smem_exchange[kNThreads - 1] = reinterpret_cast<vec_t*>(zeros)[0];
  }
  for (int start = 0; start < length; start += kNThreads * kNElts) {
    input_t values[2 * kNElts] = {0};
    if constexpr (Ktraits::kIsVecLoad) {
      typename Ktraits::BlockLoadVecT(smem_load_vec)
          .Load(reinterpret_cast<const vec_t*>(x + start), *reinterpret_cast<vec_t(*)[1]>(&values[kNElts]),
                (length - start) / kNElts);
    } else {
      __syncthreads();
      typename Ktraits::BlockLoadT(smem_load)
          .Load(x + start, *reinterpret_cast<input_t(*)[kNElts]>(&values[kNElts]), length - start);
    }
    __syncthreads();
    if (tidx < kNThreads - 1) smem_exchange[tidx] = reinterpret_cast<vec_t*>(values)[1];
    __syncthreads();
    reinterpret_cast<vec_t*>(values)[0] = smem_exchange[tidx > 0 ? tidx - 1 : kNThreads - 1];
    __syncthreads();
    if (tidx == kNThreads - 1) smem_exchange[tidx] = reinterpret_cast<vec_t*>(values)[1];
    input_t sums[kNElts];
    for (int i = 0; i < kNElts; i++) sums[i] = values[kNElts + i] + 0.5f * values[kNElts + i - 1];
    typename Ktraits::BlockStoreT(smem_store).Store(out + blockIdx.x * length + start, sums, length - start);
  }
}

template <bool kIsVecLoad>
void launch_shift(float* out, const float* inp, int rows, int length) {
  using Ktraits = Shift_traits<32, kIsVecLoad, float>;
  constexpr int kSmemSize = Ktraits::kSmemSize;
  shift_kernel<Ktraits><<<rows, Ktraits::kNThreads, kSmemSize>>>(out, inp, length);
}

void shift(float* out, const float* inp, int rows, int length) {
  if (length % 4 == 0) {
    launch_shift<true>(out, inp, rows, length);
  } else {
    launch_shift<false>(out, inp, rows, length);
  }
}
