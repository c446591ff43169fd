// The forward pass. See attention.h for what it computes.

#include "attention.h"

#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda_runtime.h>
#include <math.h>

#include "cuda_check.h"
#include "tiles.cuh"

namespace cg = cooperative_groups;

// One block per tile of queries, head and batch. The threshold needs the whole row's sum, so the
// keys are walked twice: once for lse, with a running maximum, and once for out.
template <int kDim>
__global__ void __launch_bounds__(kThreads)
    forward_kernel(const float* __restrict__ q, const float* __restrict__ k,
                   const float* __restrict__ v, const float* __restrict__ bias,
                   const float* __restrict__ tau, float* __restrict__ out,
                   float* __restrict__ lse, AttentionShape shape)
{
    __shared__ Tile<kDim> queries, keys, values;
    __shared__ float weights[kTile][kTile];

    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<kTile> row_threads = cg::tiled_partition<kTile>(block);
    int row = threadIdx.x / kTile;
    int lane = threadIdx.x % kTile;
    int head = blockIdx.y;
    int batch = blockIdx.z;
    int first = blockIdx.x * kTile;
    int i = first + row;

    RowView key_rows = head_rows(k, shape, batch, head);
    RowView value_rows = head_rows(v, shape, batch, head);
    const float* head_bias = bias + head * shape.window;
    float scale = rsqrtf((float)kDim);
    load_tile(queries, head_rows(q, shape, batch, head), first);

    float row_max = -INFINITY;
    float row_sum = 0.0f;
    for (int start = 0; start <= first; start += kTile) {
        load_tile(keys, key_rows, start);
        block.sync();
        int j = start + lane;
        float score = -INFINITY;
        if (j <= i) {
            score = scale * dot<kDim>(queries.rows[row], keys.rows[lane]) +
                    head_bias[clamped_distance(i, j, shape.window)];
        }
        float next_max = fmaxf(row_max, cg::reduce(row_threads, score, cg::greater<float>()));
        float tile_sum = cg::reduce(row_threads, expf(score - next_max), cg::plus<float>());
        row_sum = row_sum * expf(row_max - next_max) + tile_sum;
        row_max = next_max;
        block.sync();
    }
    float row_lse = row_max + logf(row_sum);

    float threshold = tau[head] / (i + 1);
    float sums[kDim / kTile] = {};
    for (int start = 0; start <= first; start += kTile) {
        load_tile(keys, key_rows, start);
        load_tile(values, value_rows, start);
        block.sync();
        int j = start + lane;
        float weight = 0.0f;
        if (j <= i) {
            float score = scale * dot<kDim>(queries.rows[row], keys.rows[lane]) +
                          head_bias[clamped_distance(i, j, shape.window)];
            weight = fmaxf(expf(score - row_lse) + threshold, 0.0f);
        }
        weights[row][lane] = weight;
        row_threads.sync();
        add_weighted_rows<kDim>(sums, weights[row], values, lane);
        block.sync();
    }

    if (i < shape.len) {
        long long index = (long long)(batch * shape.heads + head) * shape.len + i;
        store_columns(out + index * kDim, sums, lane);
        if (lane == 0) {
            lse[index] = row_lse;
        }
    }
}

template <int kDim>
static void launch_forward(const float* q, const float* k, const float* v, const float* bias,
                           const float* tau, float* out, float* lse, const AttentionShape& shape)
{
    forward_kernel<kDim><<<tile_grid(shape), kThreads>>>(q, k, v, bias, tau, out, lse, shape);
    launch_accepted("forward_kernel");
}

void lazy_attention_forward(const float* q, const float* k, const float* v, const float* bias,
                            const float* tau, float* out, float* lse, AttentionShape shape)
{
    switch (shape.dim) {
    case 16:
        return launch_forward<16>(q, k, v, bias, tau, out, lse, shape);
    case 64:
        return launch_forward<64>(q, k, v, bias, tau, out, lse, shape);
    default:
        fprintf(stderr, "attention over heads of width %d is not compiled in\n", shape.dim);
    }
}
