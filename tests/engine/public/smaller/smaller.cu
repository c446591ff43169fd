// Headers and spellings that public sources use and nvcc takes.
#include <cub/block/block_radix_rank.cuh>
#include <cuda/std/variant>
#include <cuda_fp16.h>
#include <nvtx3/nvToolsExtCudaRt.h>

struct CUstream_st;
using cudaStream_t = CUstream_st*;

template <class T>
struct Wide {
  using type = T;
};

template <class T, bool Descending>
__global__ void rank_kernel(T* out, const T* in) {
  using value_t = Wide<T>::type;
  using Rank = cub::BlockRadixRank<64, 4, Descending>;
  __shared__ typename Rank::TempStorage storage;
  unsigned keys[2];
  int ranks[2];
  for (int i = 0; i < 2; i++) keys[i] = static_cast<unsigned>(static_cast<Wide<T>::type>(in[2 * threadIdx.x + i]));
  Rank(storage).RankKeys(keys, ranks, cub::BFEDigitExtractor<unsigned>(0, 4));
  const half2 a = __floats2half2_rn(1.0f, NAN), b = __floats2half2_rn(2.0f, 0.0f);
  const value_t wrong = __hgeu2_mask(a, b) == 0xffff0000u && __hlt2_mask(a, b) == 0x0000ffffu ? 0 : 1000;
  for (int i = 0; i < 2; i++) out[2 * threadIdx.x + i] = ranks[i] + wrong;
}

void run(float* out, const float* in, bool descending) {
  cudaStream_t stream = nullptr;
  nvtxNameCudaStream(stream, "ranks");
  const cuda::std::variant<int, float> least = 32;
  const int threads = std::max({1, cuda::std::get<int>(least), 64});
  if (descending)
    rank_kernel<float, true><<<1, threads, 0, stream>>>(out, in);
  else
    rank_kernel<float, false><<<1, threads, 0, stream>>>(out, in);
}
