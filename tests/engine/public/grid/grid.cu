// Cooperative launches: one launch divides x by its norm.
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

__device__ float block_sum(float value, float* row, const cg::thread_block& block) {
  row[threadIdx.x] = value;
  block.sync();
  for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) row[threadIdx.x] += row[threadIdx.x + half];
    block.sync();
  }
  return row[0];
}

__global__ void normalize(const float* x, float* out, float* partial, int n) {
  extern __shared__ float row[];
  cg::grid_group grid = cg::this_grid();
  cg::thread_block block = cg::this_thread_block();
  float sum = 0.f;
  for (int i = (int)grid.thread_rank(); i < n; i += (int)grid.size()) sum += x[i] * x[i];
  sum = block_sum(sum, row, block);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
  grid.sync();
  if (grid.thread_rank() == 0) {
    for (unsigned b = 1; b < gridDim.x; b++) partial[0] += partial[b];
  }
  cg::sync(grid);
  const float norm = sqrtf(partial[0]);
  for (int i = (int)grid.thread_rank(); i < n; i += (int)grid.size()) out[i] = x[i] / norm;
  if (grid.thread_rank() == 0) out[n] = grid.is_valid() ? (float)gridDim.x : -1.f;
}

// The same with a barrier of its own, which spins.
__device__ unsigned arrived;
__device__ void wait_for_all(unsigned round) {
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    atomicAdd(&arrived, 1u);
    while (atomicAdd(&arrived, 0u) < round * gridDim.x) {
    }
    __threadfence();
  }
  __syncthreads();
}
__global__ void normalize_by_hand(const float* x, float* out, float* partial, int n) {
  extern __shared__ float row[];
  const int rank = blockIdx.x * blockDim.x + threadIdx.x, size = gridDim.x * blockDim.x;
  float sum = 0.f;
  for (int i = rank; i < n; i += size) sum += x[i] * x[i];
  sum = block_sum(sum, row, cg::this_thread_block());
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
  wait_for_all(1);
  if (rank == 0) {
    for (unsigned b = 1; b < gridDim.x; b++) partial[0] += partial[b];
  }
  wait_for_all(2);
  const float norm = sqrtf(partial[0]);
  for (int i = rank; i < n; i += size) out[i] = x[i] / norm;
  if (rank == 0) out[n] = (float)gridDim.x;
}

static void run_grid(int which, const float* x, float* out) {
  int n = 5000, threads = 64, blocks = 0;
  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, normalize, threads, 64 * sizeof(float));
  blocks = blocks < 24 ? blocks : 24;
  float* partial;
  cudaMalloc(&partial, blocks * sizeof(float));
  void* arguments[] = {&x, &out, &partial, &n};
  cudaError_t error = cudaSuccess;
  if (which == 0) {
    error = cudaLaunchCooperativeKernel((void*)normalize, dim3(blocks), dim3(threads), arguments,
                                        threads * sizeof(float), 0);
  } else if (which == 1) {
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(blocks), config.blockDim = dim3(threads);
    config.dynamicSmemBytes = threads * sizeof(float);
    cudaLaunchAttribute attribute[1];
    attribute[0].id = cudaLaunchAttributeCooperative;
    attribute[0].val.cooperative = 1;
    config.attrs = attribute, config.numAttrs = 1;
    error = cudaLaunchKernelEx(&config, normalize, x, out, partial, n);
  } else {
    error = cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(normalize_by_hand), dim3(blocks),
                                        dim3(threads), arguments, threads * sizeof(float), 0);
  }
  if (error != cudaSuccess) printf("%s\n", cudaGetErrorString(error));
  cudaFree(partial);
}

static void run(int which, const float* x, float* out) {
  cudaMemset(out, 0, 16384 * sizeof(float));
  run_grid(which, x, out);
}
