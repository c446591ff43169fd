// Kernels in the shapes that training code has, for benches/engine.rs: blocks and grids as people choose
// them for a GPU, reductions by shuffles. The serial loops beside them are in shapes.cpp.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda_runtime.h>
#include <float.h>
#include <vector>

namespace cg = cooperative_groups;

static int blocks_that_fill_the_device(int block_size) {
  cudaDeviceProp device;
  cudaGetDeviceProperties(&device, 0);
  return device.multiProcessorCount * device.maxThreadsPerMultiProcessor / block_size;
}

__device__ inline float warp_sum(float value) {
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffffffffu, value, offset);
  return value;
}

__device__ inline float warp_max(float value) {
  for (int offset = 16; offset > 0; offset /= 2)
    value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, offset));
  return value;
}

/// The sum or maximum of a block, in all of its threads.
template <float (*OfWarp)(float)>
__device__ inline float of_block(float value, float neutral) {
  __shared__ float of_warps[32];
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  value = OfWarp(value);
  if (lane == 0) of_warps[warp] = value;
  __syncthreads();
  value = OfWarp(lane < warps ? of_warps[lane] : neutral);
  __syncthreads();
  return value;
}

/// Adds the columns up: a warp has 8 times 4 columns of 4 rows, a block 16 warps of rows.
__global__ void column_sums_kernel(float* sums, const float* values, int rows, int columns) {
  __shared__ float of_warps[16][33];
  int column = blockIdx.x * 32 + threadIdx.x * 4;
  float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  if (column < columns) {
    int step = gridDim.y * blockDim.y * blockDim.z;
    for (int row = (blockIdx.y * blockDim.z + threadIdx.z) * blockDim.y + threadIdx.y; row < rows; row += step) {
      float4 four = *reinterpret_cast<const float4*>(values + (size_t)row * columns + column);
      sum.x += four.x, sum.y += four.y, sum.z += four.z, sum.w += four.w;
    }
  }
  float parts[4] = {sum.x, sum.y, sum.z, sum.w};
  for (int k = 0; k < 4; k++) {
    float part = parts[k];
    part += __shfl_down_sync(0xffffffffu, part, 16);
    part += __shfl_down_sync(0xffffffffu, part, 8);
    if (threadIdx.y == 0) of_warps[threadIdx.z][threadIdx.x * 4 + k] = part;
  }
  __syncthreads();
  int thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  int part = thread % 16, own = thread / 16;
  float total = of_warps[part][own];
  for (int offset = 8; offset > 0; offset /= 2) total += __shfl_down_sync(0xffffffffu, total, offset, 16);
  if (part == 0 && blockIdx.x * 32 + own < columns) atomicAdd(&sums[blockIdx.x * 32 + own], total);
}

/// The sum of squares, on a grid that fills the device.
__global__ void squared_norm_kernel(float* norm, const float* values, size_t count) {
  float sum = 0.0f;
  for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += (size_t)gridDim.x * blockDim.x)
    sum += values[i] * values[i];
  sum = of_block<warp_sum>(sum, 0.0f);
  if (threadIdx.x == 0) atomicAdd(norm, sum);
}

/// Layer norm: a warp for each row, as a tile.
__global__ void layer_norm_kernel(float* out, const float* in, int rows, int columns) {
  cg::thread_block block = cg::this_thread_block();
  cg::thread_block_tile<32> warp = cg::tiled_partition<32>(block);
  int row = blockIdx.x * warp.meta_group_size() + warp.meta_group_rank();
  if (row >= rows) return;
  const float* x = in + (size_t)row * columns;
  float sum = 0.0f;
  for (int i = warp.thread_rank(); i < columns; i += warp.size()) sum += x[i];
  float mean = cg::reduce(warp, sum, cg::plus<float>{}) / columns;
  sum = 0.0f;
  for (int i = warp.thread_rank(); i < columns; i += warp.size()) sum += (x[i] - mean) * (x[i] - mean);
  float scale = rsqrtf(cg::reduce(warp, sum, cg::plus<float>{}) / columns + 1e-5f);
  for (int i = warp.thread_rank(); i < columns; i += warp.size())
    out[(size_t)row * columns + i] = (x[i] - mean) * scale;
}

/// A residual connection and the layer norm behind it, the row kept in shared memory.
__global__ void residual_norm_kernel(float* out, const float* one, const float* other, int rows, int columns) {
  extern __shared__ float rows_of_warps[];
  int row = blockIdx.x * blockDim.y + threadIdx.y;
  if (row >= rows) return;
  float* x = rows_of_warps + threadIdx.y * columns;
  float sum = 0.0f;
  for (int i = threadIdx.x; i < columns; i += 32) {
    x[i] = one[(size_t)row * columns + i] + other[(size_t)row * columns + i];
    sum += x[i];
  }
  float mean = warp_sum(sum) / columns;
  sum = 0.0f;
  for (int i = threadIdx.x; i < columns; i += 32) sum += (x[i] - mean) * (x[i] - mean);
  float scale = rsqrtf(warp_sum(sum) / columns + 1e-5f);
  for (int i = threadIdx.x; i < columns; i += 32) out[(size_t)row * columns + i] = (x[i] - mean) * scale;
}

/// The gradient of the mean cross-entropy, a block for each row, with shuffles.
__global__ void classifier_kernel(float* out, const float* in, int rows, int columns) {
  const float* x = in + (size_t)blockIdx.x * columns;
  float top = -FLT_MAX, sum = 0.0f;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) {
    float before = top;
    top = fmaxf(top, x[i]);
    sum = sum * expf(before - top) + expf(x[i] - top);
  }
  float of_all = of_block<warp_max>(top, -FLT_MAX);
  sum = of_block<warp_sum>(sum * expf(top - of_all), 0.0f);
  int target = blockIdx.x % columns;
  for (int i = threadIdx.x; i < columns; i += blockDim.x)
    out[(size_t)blockIdx.x * columns + i] = (expf(x[i] - of_all) / sum - (i == target ? 1.0f : 0.0f)) / rows;
}

/// Softmax of a row by a block, with shuffles.
__global__ void softmax_kernel(float* out, const float* in, int rows, int columns) {
  const float* x = in + (size_t)blockIdx.x * columns;
  float top = -FLT_MAX, sum = 0.0f;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) top = fmaxf(top, x[i]);
  top = of_block<warp_max>(top, -FLT_MAX);
  for (int i = threadIdx.x; i < columns; i += blockDim.x) sum += expf(x[i] - top);
  sum = of_block<warp_sum>(sum, 0.0f);
  for (int i = threadIdx.x; i < columns; i += blockDim.x)
    out[(size_t)blockIdx.x * columns + i] = expf(x[i] - top) / sum;
}

/// The same without a shuffle: reductions are trees in shared memory.
__global__ void softmax_tree_kernel(float* out, const float* in, int rows, int columns) {
  __shared__ float tree[256];
  int tid = threadIdx.x;
  const float* x = in + (size_t)blockIdx.x * columns;
  float top = -FLT_MAX;
  for (int i = tid; i < columns; i += blockDim.x) top = fmaxf(top, x[i]);
  tree[tid] = top;
  __syncthreads();
  for (int half = blockDim.x / 2; half > 0; half /= 2) {
    if (tid < half) tree[tid] = fmaxf(tree[tid], tree[tid + half]);
    __syncthreads();
  }
  top = tree[0];
  __syncthreads();
  float sum = 0.0f;
  for (int i = tid; i < columns; i += blockDim.x) sum += expf(x[i] - top);
  tree[tid] = sum;
  __syncthreads();
  for (int half = blockDim.x / 2; half > 0; half /= 2) {
    if (tid < half) tree[tid] += tree[tid + half];
    __syncthreads();
  }
  sum = tree[0];
  for (int i = tid; i < columns; i += blockDim.x) out[(size_t)blockIdx.x * columns + i] = expf(x[i] - top) / sum;
}

/// Runs the kernel of number `shape` on `rows` of `in`; their numbers are in shapes.cpp too.
void run_shape(int shape, float* out, const float* in, int rows, int columns) {
  size_t count = (size_t)rows * columns;
  switch (shape) {
    case 0: {
      int wide = (columns + 31) / 32;
      int high = blocks_that_fill_the_device(512) / wide;
      cudaMemset(out, 0, columns * sizeof(float));
      column_sums_kernel<<<dim3(wide, high > 1 ? high : 1), dim3(8, 4, 16)>>>(out, in, rows, columns);
      break;
    }
    case 1:
      cudaMemset(out, 0, sizeof(float));
      squared_norm_kernel<<<blocks_that_fill_the_device(512), 512>>>(out, in, count);
      break;
    case 2: layer_norm_kernel<<<(rows + 15) / 16, 512>>>(out, in, rows, columns); break;
    case 3:
      residual_norm_kernel<<<(rows + 7) / 8, dim3(32, 8), 8 * columns * sizeof(float)>>>(out, in, in, rows, columns);
      break;
    case 4: classifier_kernel<<<rows, 256>>>(out, in, rows, columns); break;
    case 5: softmax_kernel<<<rows, 256>>>(out, in, rows, columns); break;
    case 6: softmax_tree_kernel<<<rows, 256>>>(out, in, rows, columns); break;
  }
  cudaDeviceSynchronize();
}
