// Shared by the variants of lm_loss: reductions over blocks and warps, and sums on the host.
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

// The largest of the threads' values, in every thread of a block of any size; `shared` holds a
// float for each thread.
static __device__ float block_max(float value, float* shared)
{
    int tid = threadIdx.x;
    __syncthreads();
    shared[tid] = value;
    __syncthreads();
    for (int active = blockDim.x; active > 1;) {
        int half = (active + 1) / 2;
        if (tid + half < active) {
            shared[tid] = fmaxf(shared[tid], shared[tid + half]);
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

// The largest over the 32 lanes of a full warp, in every lane.
static __device__ float warp_max(float value)
{
    for (int offset = 16; offset > 0; offset /= 2) {
        value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, offset));
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

// The number of positions that count.
static int count_unmasked(const unsigned char* mask, int positions)
{
    if (mask == NULL) {
        return positions;
    }
    unsigned char* flags = (unsigned char*)malloc(positions);
    cudaMemcpy(flags, mask, positions, cudaMemcpyDeviceToHost);
    int count = 0;
    for (int i = 0; i < positions; i++) {
        count += flags[i] != 0;
    }
    free(flags);
    return count;
}

// The sum of values on the device.
static float total(const float* values, int count)
{
    float* copy = (float*)malloc(count * sizeof(float));
    cudaMemcpy(copy, values, count * sizeof(float), cudaMemcpyDeviceToHost);
    double sum = 0.0;
    for (int i = 0; i < count; i++) {
        sum += copy[i];
    }
    free(copy);
    return (float)sum;
}
