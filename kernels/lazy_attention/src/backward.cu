// The backward pass. With a[i, j] = 1 where p[i, j] > 0, else 0, and dp[i, j] = <dout[i], v[j]>:
//
//   dv[j]      = sum over i of p[i, j] dout[i]
//   dtau       = sum over i, j of a[i, j] dp[i, j] / (i + 1)
//   delta[i]   = sum over j of w[i, j] a[i, j] dp[i, j]
//   ds[i, j]   = w[i, j] (a[i, j] dp[i, j] - delta[i])
//
// and from ds as of any score: dq, dk, and dbias by distance. See attention.h for the rest.

#include "attention.h"

#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda_runtime.h>
#include <math.h>

#include "cuda_check.h"
#include "tiles.cuh"

namespace cg = cooperative_groups;

// What all kernels of the backward pass read.
struct BackwardInputs {
    const float* q;
    const float* k;
    const float* v;
    const float* bias;
    const float* tau;
    const float* lse;
    const float* dout;
    long long dout_batch_stride;
    long long dout_head_stride;
    long long dout_row_stride;
    AttentionShape shape;
};

// Where a row of a head lies among the rows of all.
__device__ __forceinline__ long long row_index(const AttentionShape& shape, int batch, int head,
                                               int i)
{
    return (long long)(batch * shape.heads + head) * shape.len + i;
}

// Whether a weight passes the threshold: whether p is positive.
__device__ __forceinline__ bool passes(float weight, float threshold)
{
    return weight + threshold > 0.0f;
}

// The rows of dout of one head.
__device__ __forceinline__ RowView dout_rows(const BackwardInputs& in, int batch, int head)
{
    return {in.dout + batch * in.dout_batch_stride + head * in.dout_head_stride,
            in.dout_row_stride, in.shape.len};
}

// Writes delta and adds to dtau. One block per tile of queries, head and batch.
template <int kDim>
__global__ void __launch_bounds__(kThreads)
    delta_kernel(BackwardInputs in, float* __restrict__ delta, float* __restrict__ dtau)
{
    __shared__ Tile<kDim> queries, douts, keys, values;
    __shared__ float row_dtau[kTile];

    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<kTile> row_threads = cg::tiled_partition<kTile>(block);
    const AttentionShape& shape = in.shape;
    int row = threadIdx.x / kTile;
    int lane = threadIdx.x % kTile;
    int head = blockIdx.y;
    int batch = blockIdx.z;
    int first = blockIdx.x * kTile;
    int i = first + row;
    bool inside = i < shape.len;

    RowView key_rows = head_rows(in.k, shape, batch, head);
    RowView value_rows = head_rows(in.v, shape, batch, head);
    const float* head_bias = in.bias + head * shape.window;
    float scale = rsqrtf((float)kDim);
    float row_lse = inside ? in.lse[row_index(shape, batch, head, i)] : 0.0f;
    float threshold = in.tau[head] / (i + 1);
    const float threshold_slope = 1.0f / (i + 1);
    load_tile(queries, head_rows(in.q, shape, batch, head), first);
    load_tile(douts, dout_rows(in, batch, head), first);

    float passed = 0.0f;
    float weighted = 0.0f;
    for (int start = 0; start <= first; start += kTile) {
        load_tile(keys, key_rows, start);
        load_tile(values, value_rows, start);
        block.sync();
        int j = start + lane;
        if (inside && j <= i) {
            float score = scale * dot<kDim>(queries.rows[row], keys.rows[lane]) +
                          head_bias[clamped_distance(i, j, shape.window)];
            float weight = expf(score - row_lse);
            if (passes(weight, threshold)) {
                float dp = dot<kDim>(douts.rows[row], values.rows[lane]);
                passed += dp;
                weighted += weight * dp;
            }
        }
        block.sync();
    }

    passed = cg::reduce(row_threads, passed, cg::plus<float>());
    weighted = cg::reduce(row_threads, weighted, cg::plus<float>());
    if (lane == 0) {
        if (inside) {
            delta[row_index(shape, batch, head, i)] = weighted;
        }
        row_dtau[row] = inside ? passed * threshold_slope : 0.0f;
    }
    block.sync();
    if (row == 0) {
        float sum = cg::reduce(row_threads, row_dtau[lane], cg::plus<float>());
        if (lane == 0) {
            atomicAdd(&dtau[head], sum);
        }
    }
}

// Writes dq, and the block's share of dbias to its row of partial_dbias [batch, tiles, heads,
// window]. One block per tile of queries, head and batch; window floats of shared memory.
template <int kDim>
__global__ void __launch_bounds__(kThreads)
    query_gradient_kernel(BackwardInputs in, const float* __restrict__ delta,
                          float* __restrict__ dq, float* __restrict__ partial_dbias)
{
    extern __shared__ float block_dbias[];
    __shared__ Tile<kDim> queries, douts, keys, values;
    __shared__ float score_gradients[kTile][kTile];

    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<kTile> row_threads = cg::tiled_partition<kTile>(block);
    const AttentionShape& shape = in.shape;
    int row = threadIdx.x / kTile;
    int lane = threadIdx.x % kTile;
    int head = blockIdx.y;
    int batch = blockIdx.z;
    int first = blockIdx.x * kTile;
    int i = first + row;
    bool inside = i < shape.len;

    RowView key_rows = head_rows(in.k, shape, batch, head);
    RowView value_rows = head_rows(in.v, shape, batch, head);
    const float* head_bias = in.bias + head * shape.window;
    float scale = rsqrtf((float)kDim);
    float row_lse = inside ? in.lse[row_index(shape, batch, head, i)] : 0.0f;
    float row_delta = inside ? delta[row_index(shape, batch, head, i)] : 0.0f;
    float threshold = in.tau[head] / (i + 1);
    load_tile(queries, head_rows(in.q, shape, batch, head), first);
    load_tile(douts, dout_rows(in, batch, head), first);

    for (int n = threadIdx.x; n < shape.window; n += kThreads) {
        block_dbias[n] = 0.0f;
    }

    float sums[kDim / kTile] = {};
    for (int start = 0; start <= first; start += kTile) {
        load_tile(keys, key_rows, start);
        load_tile(values, value_rows, start);
        block.sync();
        int j = start + lane;
        float ds = 0.0f;
        if (inside && j <= i) {
            int distance = clamped_distance(i, j, shape.window);
            float score = scale * dot<kDim>(queries.rows[row], keys.rows[lane]) +
                          head_bias[distance];
            float weight = expf(score - row_lse);
            float dw = 0.0f;
            if (passes(weight, threshold)) {
                dw = dot<kDim>(douts.rows[row], values.rows[lane]);
            }
            ds = weight * (dw - row_delta);
            atomicAdd(&block_dbias[distance], ds);
        }
        score_gradients[row][lane] = scale * ds;
        row_threads.sync();
        add_weighted_rows<kDim>(sums, score_gradients[row], keys, lane);
        block.sync();
    }
    if (inside) {
        store_columns(dq + row_index(shape, batch, head, i) * kDim, sums, lane);
    }
    long long tile = (long long)batch * gridDim.x + blockIdx.x;
    float* partial = partial_dbias + (tile * shape.heads + head) * shape.window;
    for (int n = threadIdx.x; n < shape.window; n += kThreads) {
        partial[n] = block_dbias[n];
    }
}

// Adds up the rows of partial_dbias, in their order. One thread per element of dbias.
__global__ void sum_partial_dbias_kernel(const float* __restrict__ partial_dbias,
                                         float* __restrict__ dbias, int tiles, int elements)
{
    int n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n < elements) {
        float sum = 0.0f;
        for (int tile = 0; tile < tiles; tile++) {
            sum += partial_dbias[(long long)tile * elements + n];
        }
        dbias[n] = sum;
    }
}

// Writes dk and dv. One block per tile of keys, head and batch.
template <int kDim>
__global__ void __launch_bounds__(kThreads)
    key_value_gradient_kernel(BackwardInputs in, const float* __restrict__ delta,
                              float* __restrict__ dk, float* __restrict__ dv)
{
    __shared__ Tile<kDim> queries, douts, keys, values;
    __shared__ float weights[kTile][kTile];
    __shared__ float score_gradients[kTile][kTile];

    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<kTile> row_threads = cg::tiled_partition<kTile>(block);
    const AttentionShape& shape = in.shape;
    int row = threadIdx.x / kTile;
    int lane = threadIdx.x % kTile;
    int head = blockIdx.y;
    int batch = blockIdx.z;
    int first = blockIdx.x * kTile;
    int j = first + row;

    RowView query_rows = head_rows(in.q, shape, batch, head);
    const float* head_bias = in.bias + head * shape.window;
    float scale = rsqrtf((float)kDim);
    load_tile(keys, head_rows(in.k, shape, batch, head), first);
    load_tile(values, head_rows(in.v, shape, batch, head), first);

    float key_sums[kDim / kTile] = {};
    float value_sums[kDim / kTile] = {};
    for (int start = first; start < shape.len; start += kTile) {
        load_tile(queries, query_rows, start);
        load_tile(douts, dout_rows(in, batch, head), start);
        block.sync();
        int i = start + lane;
        float p = 0.0f;
        float ds = 0.0f;
        if (i < shape.len && j <= i) {
            long long index = row_index(shape, batch, head, i);
            float threshold = in.tau[head] / (i + 1);
            float score = scale * dot<kDim>(queries.rows[lane], keys.rows[row]) +
                          head_bias[clamped_distance(i, j, shape.window)];
            float weight = expf(score - in.lse[index]);
            float dw = 0.0f;
            if (passes(weight, threshold)) {
                p = weight + threshold;
                dw = dot<kDim>(douts.rows[lane], values.rows[row]);
            }
            ds = weight * (dw - delta[index]);
        }
        weights[row][lane] = p;
        score_gradients[row][lane] = scale * ds;
        row_threads.sync();
        add_weighted_rows<kDim>(value_sums, weights[row], douts, lane);
        add_weighted_rows<kDim>(key_sums, score_gradients[row], queries, lane);
        block.sync();
    }
    if (j < shape.len) {
        store_columns(dk + row_index(shape, batch, head, j) * kDim, key_sums, lane);
        store_columns(dv + row_index(shape, batch, head, j) * kDim, value_sums, lane);
    }
}

template <int kDim>
static void launch_backward(const BackwardInputs& in, float* delta, float* partial_dbias,
                            float* dq, float* dk, float* dv, float* dtau)
{
    dim3 grid = tile_grid(in.shape);
    delta_kernel<kDim><<<grid, kThreads>>>(in, delta, dtau);
    launch_accepted("delta_kernel");
    size_t shared = in.shape.window * sizeof(float);
    query_gradient_kernel<kDim><<<grid, kThreads, shared>>>(in, delta, dq, partial_dbias);
    launch_accepted("query_gradient_kernel");
    key_value_gradient_kernel<kDim><<<grid, kThreads>>>(in, delta, dk, dv);
    launch_accepted("key_value_gradient_kernel");
}

void lazy_attention_backward(const float* q, const float* k, const float* v, const float* bias,
                             const float* tau, const float* lse, const float* dout,
                             const long long* dout_stride, float* dq, float* dk, float* dv,
                             float* dbias, float* dtau, AttentionShape shape)
{
    if (dout_stride[3] != 1 || dout_stride[0] % 4 != 0 || dout_stride[1] % 4 != 0 ||
        dout_stride[2] % 4 != 0) {
        fprintf(stderr, "rows of dout must be packed and aligned to 16 bytes\n");
        return;
    }
    long long rows = (long long)shape.batch * shape.heads * shape.len;
    int biases = shape.heads * shape.window;
    int tiles = shape.batch * (int)tile_grid(shape).x;
    float* delta = NULL;
    float* partial_dbias = NULL;
    CUDA_CHECK(cudaMalloc((void**)&delta, rows * sizeof(float)));
    CUDA_CHECK(cudaMalloc((void**)&partial_dbias, (size_t)tiles * biases * sizeof(float)));
    CUDA_CHECK(cudaMemset(dtau, 0, shape.heads * sizeof(float)));

    BackwardInputs in = {q, k, v, bias, tau, lse, dout, dout_stride[0], dout_stride[1],
                         dout_stride[2], shape};
    switch (shape.dim) {
    case 16:
        launch_backward<16>(in, delta, partial_dbias, dq, dk, dv, dtau);
        break;
    case 64:
        launch_backward<64>(in, delta, partial_dbias, dq, dk, dv, dtau);
        break;
    default:
        fprintf(stderr, "attention over heads of width %d is not compiled in\n", shape.dim);
    }
    sum_partial_dbias_kernel<<<(biases + 255) / 256, 256>>>(partial_dbias, dbias, tiles, biases);
    launch_accepted("sum_partial_dbias_kernel");
    CUDA_CHECK(cudaDeviceSynchronize());
    CUDA_CHECK(cudaFree(partial_dbias));
    CUDA_CHECK(cudaFree(delta));
}
