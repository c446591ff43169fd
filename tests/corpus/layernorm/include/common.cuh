// Shared by the variants of layernorm: reductions over blocks and warps, compensated sums.
#pragma once

#include <cuda_runtime.h>
#include <math.h>
#include <stdlib.h>

// The sum of the threads' values, in every thread of a block of any size; `shared` holds a
// float for each thread.
static __device__ float block_sum(float value, float* shared)
{
    int tid = threadIdx.x;
    __syncthreads();
    shared[tid] = value;
    __syncthreads();
    for (int active = blockDim.x; active > 1;) {
        int half = (active + 1) / 2;
        if (tid + half < active) {
            shared[tid] += shared[tid + half];
        }
        __syncthreads();
        active = half;
    }
    return shared[0];
}

// The sum over the 32 lanes of a full warp, in every lane.
static __device__ float warp_sum(float value)
{
    for (int offset = 16; offset > 0; offset /= 2) {
        value += __shfl_xor_sync(0xffffffffu, value, offset);
    }
    return value;
}

// Adds value to *sum, and next time what rounding lost of it (Kahan summation).
static __device__ void kahan_add(float value, float* sum, float* lost)
{
    float corrected = value - *lost;
    float next = *sum + corrected;
    *lost = (next - *sum) - corrected;
    *sum = next;
}
