// Tiles of rows in shared memory, and what is computed for a pair of rows. A block has kThreads
// threads: a row of threads for each row of the tile, so that thread (row, lane) has one score.
#pragma once

#include <cuda_runtime.h>
#include <math.h>

#include "attention.h"

constexpr int kTile = 16;
constexpr int kThreads = kTile * kTile;

// One float4 more than a row needs, so that the threads of a warp read different banks.
template <int kDim>
struct Tile {
    float4 rows[kTile][kDim / 4 + 1];
};

// Rows of kDim floats in global memory, each aligned to 16 bytes.
struct RowView {
    const float* base;
    long long stride;
    int rows;
};

// The rows of one head of a packed [batch, heads, len, dim].
__device__ __forceinline__ RowView head_rows(const float* tensor, const AttentionShape& shape,
                                             int batch, int head)
{
    long long first = (long long)(batch * shape.heads + head) * shape.len;
    return {tensor + first * shape.dim, shape.dim, shape.len};
}

// Copies kTile rows; those behind the last one become zero.
template <int kDim>
__device__ __forceinline__ void load_tile(Tile<kDim>& tile, RowView view, int first)
{
    constexpr int kVectors = kDim / 4;
    for (int n = threadIdx.x; n < kTile * kVectors; n += kThreads) {
        int row = n / kVectors;
        int column = n % kVectors;
        float4 value = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (first + row < view.rows) {
            const float* source = view.base + (first + row) * view.stride;
            value = __ldg(reinterpret_cast<const float4*>(source) + column);
        }
        tile.rows[row][column] = value;
    }
}

template <int kDim>
__device__ __forceinline__ float dot(const float4* a, const float4* b)
{
    float sum = 0.0f;
#pragma unroll
    for (int n = 0; n < kDim / 4; n++) {
        sum += a[n].x * b[n].x;
        sum += a[n].y * b[n].y;
        sum += a[n].z * b[n].z;
        sum += a[n].w * b[n].w;
    }
    return sum;
}

// sums[n] += weights[j] * tile[j][lane * N + n] over the rows j of the tile.
template <int kDim, int N = kDim / kTile>
__device__ __forceinline__ void add_weighted_rows(float (&sums)[N], const float* weights,
                                                  const Tile<kDim>& tile, int lane)
{
#pragma unroll
    for (int j = 0; j < kTile; j++) {
        const float* columns = reinterpret_cast<const float*>(tile.rows[j]) + lane * N;
#pragma unroll
        for (int n = 0; n < N; n++) {
            sums[n] += weights[j] * columns[n];
        }
    }
}

// Writes thread (row, lane)'s N columns of a row.
template <int N>
__device__ __forceinline__ void store_columns(float* row, const float (&sums)[N], int lane)
{
#pragma unroll
    for (int n = 0; n < N; n++) {
        row[lane * N + n] = sums[n];
    }
}

// The distance from query i back to key j, as the bias knows it.
__device__ __forceinline__ int clamped_distance(int i, int j, int window)
{
    return min(i - j, window - 1);
}

// One block per tile of rows, head and batch.
static inline dim3 tile_grid(const AttentionShape& shape)
{
    return dim3((shape.len + kTile - 1) / kTile, shape.heads, shape.batch);
}
