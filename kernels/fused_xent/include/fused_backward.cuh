// Gradients of the logsumexp without the logits: probabilities are worked out again, tile by tile.
#pragma once

#include <cooperative_groups.h>

#include "tile.cuh"

// Adds weight of lane * rows[lane][column], over the lanes of a warp, to the columns that a lane
// holds: lane, lane + 32, ... `weights` is a warp's own, in shared memory.
template <typename T, int kWidth, typename Warp>
__device__ __forceinline__ void add_weighted_rows(const Warp& warp, float weight, float* weights,
                                                  const T* rows,
                                                  float (&sums)[kWidth / kWarpSize])
{
    weights[warp.thread_rank()] = weight;
    warp.sync();
    for (int source = 0; source < kWarpSize; source++) {
        float row_weight = weights[source];
#pragma unroll
        for (int i = 0; i < kWidth / kWarpSize; i++) {
            int column = i * kWarpSize + warp.thread_rank();
            sums[i] += row_weight * float(rows[source * kStride<T, kWidth> + column]);
        }
    }
    warp.sync();
}

// dq: a block works kTokens tokens, each warp kTokens / kWarps of them.
template <typename T, int kWidth, int kTokens, int kItems>
__global__ void __launch_bounds__(kThreads)
fused_dq_kernel(const T* __restrict__ q, const T* __restrict__ k, const int* __restrict__ targets,
                const float* __restrict__ dloss, const float* __restrict__ lse,
                T* __restrict__ dq, int tokens, int items)
{
    namespace cg = cooperative_groups;
    constexpr int kTokensPerWarp = kTokens / kWarps;
    constexpr int kColumns = kWidth / kWarpSize;
    __shared__ float weights[kWarps][kWarpSize];
    extern __shared__ __align__(16) unsigned char shared[];
    T* k_tile = reinterpret_cast<T*>(shared);
    T* q_tile = k_tile + kItems * kStride<T, kWidth>;

    auto warp = cg::tiled_partition<kWarpSize>(cg::this_thread_block());
    int lane = warp.thread_rank();
    int first_token = blockIdx.x * kTokens;
    int own = warp.meta_group_rank() * kTokensPerWarp;
    load_rows<T, kWidth, kTokens>(q_tile, q, first_token, tokens);

    float sums[kTokensPerWarp][kColumns] = {};
    for (int first_item = 0; first_item < items; first_item += kItems) {
        __syncthreads();
        load_rows<T, kWidth, kItems>(k_tile, k, first_item, items);
        __syncthreads();
        for (int i = 0; i < kTokensPerWarp && first_token + own + i < tokens; i++) {
            int token = first_token + own + i;
            for (int first_row = 0; first_row < kItems; first_row += kWarpSize) {
                const T* rows = k_tile + first_row * kStride<T, kWidth>;
                float logit = dot<T, kWidth>(q_tile + (own + i) * kStride<T, kWidth>,
                                             rows + lane * kStride<T, kWidth>);
                bool real = first_item + first_row + lane < items;
                float weight = real ? dloss[token] * expf(logit - lse[token]) : 0.0f;
                add_weighted_rows<T, kWidth>(warp, weight, weights[warp.meta_group_rank()], rows,
                                             sums[i]);
            }
        }
    }

    for (int i = 0; i < kTokensPerWarp && first_token + own + i < tokens; i++) {
        size_t token = first_token + own + i;
        const T* label_row = k + (size_t)targets[token] * kWidth;
        for (int j = 0; j < kColumns; j++) {
            int column = j * kWarpSize + lane;
            float label = dloss[token] * float(label_row[column]);
            dq[token * kWidth + column] = T(sums[i][j] - label);
        }
    }
}

// dk but for the targets' rows: a block works kItems items, each warp kItems / kWarps of them, and
// adds one microbatch to what dk [items, kWidth] holds.
template <typename T, int kWidth, int kItems, int kTokens>
__global__ void __launch_bounds__(kThreads)
fused_dk_kernel(const T* __restrict__ q, const T* __restrict__ k, const float* __restrict__ dloss,
                const float* __restrict__ lse, float* __restrict__ dk, int tokens, int items)
{
    namespace cg = cooperative_groups;
    constexpr int kItemsPerWarp = kItems / kWarps;
    constexpr int kColumns = kWidth / kWarpSize;
    __shared__ float weights[kWarps][kWarpSize];
    extern __shared__ __align__(16) unsigned char shared[];
    T* q_tile = reinterpret_cast<T*>(shared);
    T* k_tile = q_tile + kTokens * kStride<T, kWidth>;

    auto warp = cg::tiled_partition<kWarpSize>(cg::this_thread_block());
    int lane = warp.thread_rank();
    int first_item = blockIdx.x * kItems;
    int own = warp.meta_group_rank() * kItemsPerWarp;
    load_rows<T, kWidth, kItems>(k_tile, k, first_item, items);

    float sums[kItemsPerWarp][kColumns] = {};
    for (int first_token = 0; first_token < tokens; first_token += kTokens) {
        __syncthreads();
        load_rows<T, kWidth, kTokens>(q_tile, q, first_token, tokens);
        __syncthreads();
        for (int i = 0; i < kItemsPerWarp && first_item + own + i < items; i++) {
            for (int first_row = 0; first_row < kTokens; first_row += kWarpSize) {
                const T* rows = q_tile + first_row * kStride<T, kWidth>;
                float logit = dot<T, kWidth>(rows + lane * kStride<T, kWidth>,
                                             k_tile + (own + i) * kStride<T, kWidth>);
                int token = first_token + first_row + lane;
                float weight = token < tokens ? dloss[token] * expf(logit - lse[token]) : 0.0f;
                add_weighted_rows<T, kWidth>(warp, weight, weights[warp.meta_group_rank()], rows,
                                             sums[i]);
            }
        }
    }

    for (int i = 0; i < kItemsPerWarp && first_item + own + i < items; i++) {
        for (int j = 0; j < kColumns; j++) {
            dk[(size_t)(first_item + own + i) * kWidth + j * kWarpSize + lane] += sums[i][j];
        }
    }
}
