// Clusters: blocks that see each other's shared memory, and a grid of as many blocks as the device holds.
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

template <class... P, class... A>
static void launch(void (*kernel)(P...), dim3 grid, dim3 block, size_t bytes, dim3 cluster, A... arguments) {
  cudaLaunchConfig_t config = {};
  config.gridDim = grid, config.blockDim = block, config.dynamicSmemBytes = bytes;
  cudaLaunchAttribute attribute[1];
  attribute[0].id = cudaLaunchAttributeClusterDimension;
  attribute[0].val.clusterDim.x = cluster.x;
  attribute[0].val.clusterDim.y = cluster.y;
  attribute[0].val.clusterDim.z = cluster.z;
  config.attrs = attribute, config.numAttrs = 1;
  cudaError_t error = cudaLaunchKernelEx(&config, kernel, arguments...);
  if (error != cudaSuccess) printf("%s\n", cudaGetErrorName(error)), cudaGetLastError();
}

// A histogram whose bins are spread over the blocks of a cluster.
__global__ void histogram(const float* x, int n, int bins, int per_block, float* out) {
  extern __shared__ int own[];
  cg::cluster_group cluster = cg::this_cluster();
  for (int bin = threadIdx.x; bin < per_block; bin += blockDim.x) own[bin] = 0;
  cluster.sync();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    int bin = (int)((x[i] + 7.f) * 4.f) % bins;
    int* there = cluster.map_shared_rank(own, bin / per_block);
    atomicAdd(there + bin % per_block, 1);
  }
  cluster.sync();
  int* first = own;
  for (int bin = threadIdx.x; bin < per_block; bin += blockDim.x) {
    int number = (int)cluster.block_rank() * per_block + bin;
    if (number < bins) atomicAdd(&out[number], (float)first[bin]);
  }
}

// Rows that a cluster divides by their norm: each block has a part of one.
__global__ void __cluster_dims__(4, 1, 1) normalize(const float* x, float* out, int width) {
  __shared__ float sums[128];
  __shared__ float of_block;
  cg::cluster_group cluster = cg::this_cluster();
  const int row = blockIdx.x / 4, part = width / 4;
  const int at = row * width + (int)cluster.block_rank() * part;
  float sum = 0.f;
  for (int i = threadIdx.x; i < part; i += blockDim.x) sum += x[at + i] * x[at + i];
  sums[threadIdx.x] = sum;
  __syncthreads();
  for (int half = 64; half > 0; half /= 2) {
    if ((int)threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) of_block = sums[0];
  cluster.sync();
  float all = 0.f;
  for (unsigned rank = 0; rank < cluster.num_blocks(); rank++)
    all += *cluster.map_shared_rank(&of_block, rank);
  const float norm = sqrtf(all);
  cluster.sync();
  for (int i = threadIdx.x; i < part; i += blockDim.x) out[at + i] = x[at + i] / norm;
}

// Where a thread stands in a cluster of 2 x 2 blocks; each block tells what its neighbour has, behind a barrier
// in two parts.
__global__ void __launch_bounds__(32) places(float* out) {
  __shared__ int mine[32];
  cg::cluster_group cluster = cg::this_cluster();
  cg::grid_group grid = cg::this_grid();
  const int thread = threadIdx.y * blockDim.x + threadIdx.x;
  mine[thread] = (int)(cluster.block_rank() * 100 + thread);
  auto token = cluster.barrier_arrive();
  const int block = blockIdx.y * gridDim.x + blockIdx.x;
  float* own = out + (block * 32 + thread) * 8;
  own[0] = cluster.block_rank(), own[1] = cluster.thread_rank(), own[2] = cluster.num_threads();
  own[3] = cluster.block_index().x * 10 + cluster.block_index().y;
  own[4] = cluster.thread_index().x * 100 + cluster.thread_index().y;
  own[5] = cluster.dim_threads().x * 100 + cluster.dim_blocks().y;
  own[6] = (float)grid.cluster_rank() * 10 + (float)grid.num_clusters();
  cluster.barrier_wait(static_cast<decltype(token)&&>(token));
  const unsigned next = (cluster.block_rank() + 1) % cluster.num_blocks();
  const int* there = cluster.map_shared_rank(mine, next);
  own[7] = there[31 - thread] + (cluster.query_shared_rank(there) == next ? 0.f : 1000.f);
  cluster.sync();
}

// Alone, a block is a cluster of its own.
__global__ void alone(float* out) {
  __shared__ float value[64];
  cg::cluster_group cluster = cg::this_cluster();
  value[threadIdx.x] = threadIdx.x;
  cluster.sync();
  out[threadIdx.x] = *cluster.map_shared_rank(&value[63 - threadIdx.x], 0) + cluster.num_blocks();
}

// One launch of as many blocks as the device holds; every thread adds, then all read the sum.
__device__ int total;
__global__ void fill_device(float* out, int n) {
  cg::grid_group grid = cg::this_grid();
  int local[16];
  for (int i = 0; i < 16; i++) local[i] = (int)threadIdx.x + i;
  if (threadIdx.x == 0) atomicAdd(&total, 1);
  grid.sync();
  bool right = total == (int)gridDim.x;
  grid.sync();
  for (int i = 0; i < 16; i++) right &= local[i] == (int)threadIdx.x + i;
  const long long rank = (long long)grid.thread_rank();
  if (rank < n) out[rank] = right;
  if (!right) out[0] = -1;
}

// The same by inline PTX: what block b has goes to the next one, twice as large.
__global__ void by_ptx(const float* x, float* out) {
  __shared__ float own[32];
  unsigned rank, count;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(count));
  own[threadIdx.x] = x[blockIdx.x * 32 + threadIdx.x];
  asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::: "memory");
  const unsigned address = (unsigned)__cvta_generic_to_shared(own + threadIdx.x);
  float value;
  asm volatile("{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %1, %2;\nld.shared::cluster.f32 %0, [there];\n}"
               : "=f"(value) : "r"(address), "r"((rank + 1) % count) : "memory");
  asm volatile("barrier.cluster.arrive;\n\tbarrier.cluster.wait;" ::: "memory");
  asm volatile("{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %1, %2;\nst.shared::cluster.f32 [there], %0;\n}"
               :: "f"(value * 2.f), "r"(address), "r"((rank + 2) % count) : "memory");
  asm volatile("barrier.cluster.arrive;\n\tbarrier.cluster.wait;" ::: "memory");
  out[blockIdx.x * 32 + threadIdx.x] = own[threadIdx.x];
}

// An instance of a template, which the launch names by a pointer.
template <class T, int N>
__global__ void add_rank(T* out) {
  if (threadIdx.x < N) out[blockIdx.x * N + threadIdx.x] += (T)cg::this_cluster().block_rank();
}

__global__ void wide(float* out) {
  if (threadIdx.x == 0) atomicAdd(out, (float)cg::this_cluster().num_blocks());
}

static void run(int which, const float* x, float* out) {
  cudaMemset(out, 0, 16384 * sizeof(float));
  if (which == 0) {
    for (unsigned size = 1; size <= 8; size *= 2) {
      const int per_block = 56 / (int)size;
      launch(histogram, dim3(16), dim3(64), per_block * sizeof(int), dim3(size), x, 5000, 56, per_block, out + 56 * (size - 1));
    }
  } else if (which == 1) {
    normalize<<<4 * 8, 128>>>(x, out, 512);
  } else if (which == 2) {
    launch(places, dim3(4, 2), dim3(8, 4), 0, dim3(2, 2), out);
  } else if (which == 3) {
    alone<<<1, 64>>>(out);
  } else if (which == 4) {
    int blocks = 0, multiprocessors = 0, n = 16384, zero = 0;
    cudaMemcpyToSymbol(total, &zero, sizeof zero);
    cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0);
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, fill_device, 1024, 0);
    void* arguments[] = {&out, &n};
    cudaError_t error = cudaLaunchCooperativeKernel((void*)fill_device, dim3(blocks * multiprocessors), dim3(1024), arguments, 0, 0);
    if (error != cudaSuccess) printf("%s\n", cudaGetErrorName(error));
    error = cudaLaunchCooperativeKernel((void*)fill_device, dim3(blocks * multiprocessors + 1), dim3(1024), arguments, 0, 0);
    printf("%s\n", cudaGetErrorName(error)), cudaGetLastError();
  } else if (which == 6) {
    launch(by_ptx, dim3(8), dim3(32), 0, dim3(4), x, out);
    launch(add_rank<float, 32>, dim3(8), dim3(64), 0, dim3(2), out);
  } else {
    launch(wide, dim3(32), dim3(32), 0, dim3(16), out);
    cudaFuncSetAttribute(wide, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
    launch(wide, dim3(32), dim3(32), 0, dim3(16), out);
    launch(wide, dim3(32), dim3(32), 0, dim3(32), out);
    launch(wide, dim3(32), dim3(32), 0, dim3(5), out);
    launch(wide, dim3(32), dim3(32), 0, dim3(0, 1, 1), out);
    launch(wide, dim3(32), dim3(32), 0, dim3(0, 0, 0), out);
    launch(normalize, dim3(32), dim3(128), 0, dim3(2), x, out + 64, 512);
  }
}
