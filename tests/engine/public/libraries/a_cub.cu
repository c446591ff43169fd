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

__global__ void warp_sums(const float* x, float* out) {
  using WarpReduce = cub::WarpReduce<float, 8>;
  __shared__ typename WarpReduce::TempStorage temp[4];
  float sum = WarpReduce(temp[threadIdx.x / 8]).Sum(x[threadIdx.x]);
  if (threadIdx.x % 8 == 0) out[threadIdx.x / 8] = sum;
  float running;
  cub::WarpScan<float>::TempStorage scan;
  cub::WarpScan<float>(scan).InclusiveSum(x[threadIdx.x], running);
  out[4 + threadIdx.x] = running;
}

__global__ void loaded(const float* x, float* out, int n) {
  using Load = cub::BlockLoad<float, 64, 4, cub::BLOCK_LOAD_VECTORIZE>;
  using Store = cub::BlockStore<float, 64, 4, cub::BLOCK_STORE_STRIPED>;
  __shared__ typename Load::TempStorage temp;
  float items[4];
  Load(temp).Load(x, items, n, -1.f);
  Store().Store(out, items);
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

static void run_cub_device(const float* x, float* out, int n) {
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

static void run_cub(int which, const float* x, float* out) {
  if (which == 0) block_statistics<256><<<1, 256>>>(x, out, 200);
  if (which == 1) warp_sums<<<1, 32>>>(x, out);
  if (which == 2) loaded<<<1, 64>>>(x, out, 250);
  if (which == 3) run_cub_device(x, out, 5000);
}
