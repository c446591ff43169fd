// CUB in kernels and from the host.
#include <cub/cub.cuh>
#include <cuda_runtime.h>

template <int kThreads>
__global__ void block_statistics(const float* x, float* out, int n) {
  typedef cub::BlockReduce<float, kThreads> BlockReduce;
  typedef cub::BlockScan<int, kThreads> BlockScan;
  __shared__ union {
    typename BlockReduce::TempStorage reduce;
    typename BlockScan::TempStorage scan;
  } temp;
  __shared__ float mean;
  const int t = threadIdx.x;
  const float value = t < n ? x[t] : 0.f;
  float sum = BlockReduce(temp.reduce).Sum(value, n);
  if (t == 0) mean = sum / n;
  __syncthreads();
  float largest = BlockReduce(temp.reduce).Reduce(value, cub::Max());
  __syncthreads();
  int items[2] = {t, 1}, before[2], total;
  BlockScan(temp.scan).ExclusiveSum(items, before, total);
  out[8 + 2 * t] = (float)before[0];
  out[9 + 2 * t] = (float)before[1];
  if (t == 0) out[0] = mean, out[1] = largest, out[2] = (float)total;
}

/// What came in the tiles before.
struct Running {
  float sum;
  __device__ float operator()(float tile) {
    const float before = sum;
    sum += tile;
    return before;
  }
};

__global__ void tiles(const float* x, float* out) {
  using Scan = cub::BlockScan<float, 64>;
  __shared__ typename Scan::TempStorage temp;
  Running inclusive = {0.f}, exclusive = {1.f};
  for (int tile = 0; tile < 2; tile++) {
    float items[2] = {x[tile * 128 + 2 * threadIdx.x], x[tile * 128 + 2 * threadIdx.x + 1]}, before[2];
    Scan(temp).ExclusiveScan(items, before, cub::Sum(), exclusive);
    __syncthreads();
    Scan(temp).InclusiveSum(items, items, inclusive);
    __syncthreads();
    for (int i = 0; i < 2; i++) {
      out[tile * 128 + 2 * threadIdx.x + i] = items[i];
      out[256 + tile * 128 + 2 * threadIdx.x + i] = before[i];
    }
  }
}

__global__ void warp_sums(const float* x, float* out) {
  using WarpReduce = cub::WarpReduce<float, 8>;
  __shared__ typename WarpReduce::TempStorage temp[4];
  float sum = WarpReduce(temp[threadIdx.x / 8]).Sum(x[threadIdx.x]);
  if (threadIdx.x % 8 == 0) out[threadIdx.x / 8] = sum;
  float running;
  cub::WarpScan<float>::TempStorage scan;
  cub::WarpScan<float>(scan).InclusiveSum(x[threadIdx.x], running);
  out[4 + threadIdx.x] = running;
  const float lane = threadIdx.x;
  out[36 + threadIdx.x] = cub::ShuffleUp<32>(lane, 3, 0, 0xffffffffu);
  out[68 + threadIdx.x] = cub::ShuffleDown<8>(lane, 3, 7, 0xffffffffu);
  out[100 + threadIdx.x] = cub::ShuffleIndex<8>(lane, 5, 0xffffffffu);
}

__global__ void loaded(const float* x, float* out, int n) {
  using Load = cub::BlockLoad<float, 64, 4, cub::BLOCK_LOAD_VECTORIZE>;
  using Store = cub::BlockStore<float, 64, 4, cub::BLOCK_STORE_STRIPED>;
  __shared__ typename Load::TempStorage temp;
  float items[4];
  Load(temp).Load(x, items, n, -1.f);
  Store().Store(out, items);
}
// Kernels place what follows such memory by its size, and access it in words of 16 bytes.
using Transposed = cub::BlockStore<float, 64, 4, cub::BLOCK_STORE_WARP_TRANSPOSE>;
static_assert(sizeof(Transposed::TempStorage) % 16 == 0, "no multiple of 16");
static_assert(sizeof(cub::BlockExchange<char, 32, 1>::TempStorage) % 16 == 0, "no multiple of 16");

struct Less {
  __device__ bool operator()(float a, float b) const { return a < b; }
};
struct Differs {
  __device__ bool operator()(int a, int b) const { return a != b; }
};
// 256 keys in 64 threads: sorted both ways, with their places, by all bits and by some.
__global__ void sorted(const float* x, float* out) {
  using Radix = cub::BlockRadixSort<float, 64, 4, int>;
  using Whole = cub::BlockRadixSort<unsigned, 64, 4>;
  using Merge = cub::BlockMergeSort<float, 64, 4>;
  using Exchange = cub::BlockExchange<float, 64, 4>;
  using Heads = cub::BlockDiscontinuity<int, 64>;
  using Histogram = cub::BlockHistogram<unsigned char, 64, 4, 16>;
  __shared__ union {
    typename Radix::TempStorage radix;
    typename Whole::TempStorage whole;
    typename Merge::TempStorage merge;
    typename Exchange::TempStorage exchange;
    typename Heads::TempStorage heads;
    typename Histogram::TempStorage histogram;
  } temp;
  __shared__ unsigned bins[16];
  const int t = threadIdx.x;
  float keys[4];
  int places[4], digits[4], flags[4];
  unsigned whole[4];
  unsigned char small[4];
  for (int i = 0; i < 4; i++) keys[i] = x[4 * t + i], places[i] = 4 * t + i;
  Radix(temp.radix).SortDescending(keys, places);
  __syncthreads();
  for (int i = 0; i < 4; i++) out[4 * t + i] = keys[i], out[256 + 4 * t + i] = (float)places[i];
  for (int i = 0; i < 4; i++) keys[i] = x[4 * t + i];
  Merge(temp.merge).Sort(keys, Less());
  __syncthreads();
  Exchange(temp.exchange).BlockedToStriped(keys);
  __syncthreads();
  for (int i = 0; i < 4; i++) out[512 + i * 64 + t] = keys[i];
  for (int i = 0; i < 4; i++) whole[i] = (unsigned)(4 * t + i) * 37u % 256u;
  Whole(temp.whole).Sort(whole, 4, 8);
  __syncthreads();
  for (int i = 0; i < 4; i++) {
    digits[i] = (int)(whole[i] / 32);
    small[i] = (unsigned char)(whole[i] % 13);
    out[768 + 4 * t + i] = (float)whole[i];
  }
  Heads(temp.heads).FlagHeads(flags, digits, Differs());
  __syncthreads();
  Histogram(temp.histogram).Histogram(small, bins);
  __syncthreads();
  for (int i = 0; i < 4; i++) out[1024 + 4 * t + i] = (float)flags[i];
  if (t < 16) out[1280 + t] = (float)bins[t];
}

__global__ void pair(const cub::KeyValuePair<int, float>* best, float* out) {
  out[0] = (float)best->key, out[1] = best->value;
}
__global__ void indices(int* at, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) at[i] = i;
}
__global__ void to_float(const int* x, float* out, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = (float)x[i];
}

void run_cub_device(const float* x, float* out, int n) {
  void* temp = nullptr;
  size_t bytes = 0;
  cub::DeviceReduce::Sum(temp, bytes, x, out, n);
  cudaMalloc(&temp, bytes);
  cub::DeviceReduce::Sum(temp, bytes, x, out, n);
  cudaFree(temp), temp = nullptr;
  cub::KeyValuePair<int, float>* best;
  cudaMalloc(&best, sizeof(*best));
  cub::DeviceReduce::ArgMax(temp, bytes, x, best, n);
  cudaMalloc(&temp, bytes);
  cub::DeviceReduce::ArgMax(temp, bytes, x, best, n);
  pair<<<1, 1>>>(best, out + 1);
  cudaFree(temp), cudaFree(best), temp = nullptr;
  float *sorted = out + 8, *scanned = out + 8 + 2 * n;
  int *at, *moved;
  cudaMalloc(&at, n * sizeof(int));
  cudaMalloc(&moved, n * sizeof(int));
  indices<<<1, 256>>>(at, n);
  cub::DeviceRadixSort::SortPairsDescending(temp, bytes, x, sorted, at, moved, n, 0, sizeof(float) * 8);
  cudaMalloc(&temp, bytes);
  cub::DeviceRadixSort::SortPairsDescending(temp, bytes, x, sorted, at, moved, n, 0, sizeof(float) * 8);
  to_float<<<1, 256>>>(moved, out + 8 + n, n);
  cudaFree(temp), cudaFree(at), cudaFree(moved), temp = nullptr;
  cub::DeviceScan::InclusiveSum(temp, bytes, x, scanned, n);
  cudaMalloc(&temp, bytes);
  cub::DeviceScan::InclusiveSum(temp, bytes, x, scanned, n);
  cudaFree(temp);
}

void run_cub(int which, const float* x, float* out) {
  if (which == 0) block_statistics<256><<<1, 256>>>(x, out, 200);
  if (which == 1) warp_sums<<<1, 32>>>(x, out);
  if (which == 2) loaded<<<1, 64>>>(x, out, 250), tiles<<<1, 64>>>(x, out + 256);
  if (which == 3) run_cub_device(x, out, 5000);
  if (which == 13) sorted<<<1, 64>>>(x, out);
}
