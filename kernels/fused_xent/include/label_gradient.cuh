// The gradient of the targets' rows: -dloss * q of every token, added to the row of its target.
#pragma once

#include <cooperative_groups.h>
#include <cuda_bf16.h>

#include "tile.cuh"

// One warp per token. Tokens that share a target add to the same row, here and in the next
// microbatch, so the sums are float32 whatever T is.
template <typename T, int kWidth>
__global__ void __launch_bounds__(kThreads)
scatter_label_gradient_kernel(const T* __restrict__ q, const int* __restrict__ targets,
                              const float* __restrict__ dloss, float* __restrict__ label_rows,
                              int tokens)
{
    namespace cg = cooperative_groups;
    auto warp = cg::tiled_partition<kWarpSize>(cg::this_thread_block());
    int token = blockIdx.x * kWarps + warp.meta_group_rank();
    if (token >= tokens) {
        return;
    }
    const T* row = q + (size_t)token * kWidth;
    float* label_row = label_rows + (size_t)targets[token] * kWidth;
    for (int column = warp.thread_rank(); column < kWidth; column += kWarpSize) {
        atomicAdd(label_row + column, -dloss[token] * float(row[column]));
    }
}

// Once, after the last microbatch: adds the targets' rows to dk.
static __global__ void __launch_bounds__(kThreads)
add_label_gradient_kernel(const float* __restrict__ dk_label, float* __restrict__ dk,
                          int elements)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < elements) {
        dk[i] += dk_label[i];
    }
}
