// Loss and logsumexp without the logits: the unembedding passes by in tiles of kItems rows.
#pragma once

#include <assert.h>
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

#include "tile.cuh"

// A block works kTokens tokens, each warp kTokens / kWarps of them; the lanes share a tile's rows.
template <typename T, int kWidth, int kTokens, int kItems, bool kPadded>
__global__ void __launch_bounds__(kThreads)
fused_forward_kernel(const T* __restrict__ q, const T* __restrict__ k,
                     const int* __restrict__ targets, float* __restrict__ loss,
                     float* __restrict__ lse, int tokens, int items)
{
    namespace cg = cooperative_groups;
    constexpr int kTokensPerWarp = kTokens / kWarps;
    constexpr int kItemsPerLane = kItems / kWarpSize;
    extern __shared__ __align__(16) unsigned char shared[];
    T* k_tile = reinterpret_cast<T*>(shared);
    T* q_tile = k_tile + kItems * kStride<T, kWidth>;

    auto warp = cg::tiled_partition<kWarpSize>(cg::this_thread_block());
    int lane = warp.thread_rank();
    int first_token = blockIdx.x * kTokens;
    int own = warp.meta_group_rank() * kTokensPerWarp;
    load_rows<T, kWidth, kTokens>(q_tile, q, first_token, tokens);

    float max_logit[kTokensPerWarp];
    float sum[kTokensPerWarp];  // of this lane's items
    float label_logit[kTokensPerWarp];
    for (int i = 0; i < kTokensPerWarp; i++) {
        max_logit[i] = -INFINITY;
        sum[i] = 0.0f;
        label_logit[i] = 0.0f;
    }

    for (int first_item = 0; first_item < items; first_item += kItems) {
        __syncthreads();
        load_rows<T, kWidth, kItems>(k_tile, k, first_item, items);
        __syncthreads();
        for (int i = 0; i < kTokensPerWarp && first_token + own + i < tokens; i++) {
            int target = targets[first_token + own + i];
            assert(target >= 0 && target < items);
            float logits[kItemsPerLane];
            float tile_max = -INFINITY;
            for (int j = 0; j < kItemsPerLane; j++) {
                int row = j * kWarpSize + lane;
                logits[j] = dot<T, kWidth>(q_tile + (own + i) * kStride<T, kWidth>,
                                           k_tile + row * kStride<T, kWidth>);
                if constexpr (kPadded) {
                    if (first_item + row >= items) {
                        logits[j] = -INFINITY;
                    }
                }
                if (first_item + row == target) {
                    label_logit[i] = logits[j];
                }
                tile_max = fmaxf(tile_max, logits[j]);
            }
            float next_max = fmaxf(max_logit[i], cg::reduce(warp, tile_max, cg::greater<float>()));
            float tile_sum = 0.0f;
            for (int j = 0; j < kItemsPerLane; j++) {
                tile_sum += expf(logits[j] - next_max);
            }
            sum[i] = sum[i] * expf(max_logit[i] - next_max) + tile_sum;
            max_logit[i] = next_max;
        }
    }

    for (int i = 0; i < kTokensPerWarp && first_token + own + i < tokens; i++) {
        float total = cg::reduce(warp, sum[i], cg::plus<float>());
        float label = cg::reduce(warp, label_logit[i], cg::plus<float>());
        if (lane == 0) {
            float result = max_logit[i] + logf(total);
            lse[first_token + own + i] = result;
            loss[first_token + own + i] = result - label;
        }
    }
}
