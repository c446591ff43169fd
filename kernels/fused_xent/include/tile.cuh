// Rows of a matrix in shared memory, and products with them.
#pragma once

#include "packed.cuh"

constexpr int kWarpSize = 32;
constexpr int kWarps = 4;
constexpr int kThreads = kWarps * kWarpSize;

// Elements between rows in shared memory: one pack more than a row, so that lanes which read the
// same column of different rows meet different banks.
template <typename T, int kWidth>
constexpr int kStride = kWidth + Packed<T>::size;

// Copies rows first .. first+kRows-1 of source [rows, kWidth] to shared memory, by all threads of
// the block; rows beyond the end become 0.
template <typename T, int kWidth, int kRows>
__device__ __forceinline__ void load_rows(T* tile, const T* __restrict__ source, int first,
                                          int rows)
{
    constexpr int kPacks = kWidth / Packed<T>::size;
    for (int i = threadIdx.x; i < kRows * kPacks; i += kThreads) {
        int row = i / kPacks;
        int column = i % kPacks * Packed<T>::size;
        Packed<T> pack;
        if (first + row < rows) {
            pack = Packed<T>::load(source + (size_t)(first + row) * kWidth + column);
        } else {
            for (int j = 0; j < Packed<T>::size; j++) {
                pack.values[j] = T(0.0f);
            }
        }
        pack.store(tile + row * kStride<T, kWidth> + column);
    }
}

// The product of two rows in shared memory, accumulated in float32.
template <typename T, int kWidth>
__device__ __forceinline__ float dot(const T* a, const T* b)
{
    float sum = 0.0f;
#pragma unroll
    for (int column = 0; column < kWidth; column += Packed<T>::size) {
        Packed<T> left = Packed<T>::load(a + column);
        Packed<T> right = Packed<T>::load(b + column);
#pragma unroll
        for (int j = 0; j < Packed<T>::size; j++) {
            sum += float(left.values[j]) * float(right.values[j]);
        }
    }
    return sum;
}

// Bytes of shared memory for tiles of so many rows together.
template <typename T, int kWidth>
constexpr size_t tile_bytes(int rows)
{
    return rows * kStride<T, kWidth> * sizeof(T);
}
