// Loss of a language model and its gradient. See loss.h for the layout of the arrays.

#include "loss.h"

#include <cuda_runtime.h>
#include <math.h>
#include <stdlib.h>

#include "cuda_check.h"

// Adds value to *sum, and next time what rounding lost of it (Kahan summation).
static __device__ __forceinline__ void kahan_add(float value, float* sum, float* lost)
{
    float corrected = value - *lost;
    float next = *sum + corrected;
    *lost = (next - *sum) - corrected;
    *sum = next;
}

// One thread per position.
__global__ void lm_cross_entropy_loss_kernel(const float* __restrict__ logits,
                                             const int* __restrict__ targets,
                                             const unsigned char* __restrict__ mask,
                                             float* __restrict__ losses, int positions, int vocab)
{
    int position = blockIdx.x * blockDim.x + threadIdx.x;
    if (position >= positions) {
        return;
    }
    if (mask != NULL && mask[position] == 0) {
        losses[position] = 0.0f;
        return;
    }

    const float* row = logits + (size_t)position * vocab;
    float max_logit = -INFINITY;
#pragma unroll 4
    for (int i = 0; i < vocab; i++) {
        max_logit = fmaxf(max_logit, __ldg(&row[i]));
    }
    float sum = 0.0f;
    float lost = 0.0f;
    for (int i = 0; i < vocab; i++) {
        kahan_add(expf(__ldg(&row[i]) - max_logit), &sum, &lost);
    }
    losses[position] = max_logit + logf(sum) - row[targets[position]];
}

// One block per position; the threads stride over the vocabulary and reduce the row's maximum,
// then its sum, in shared memory, blockDim.x floats. The block may have any size: where an odd
// number of terms is left, the middle one waits for the next round.
__global__ void lm_cross_entropy_gradient_kernel(const float* __restrict__ logits,
                                                 const int* __restrict__ targets,
                                                 const unsigned char* __restrict__ mask,
                                                 float* __restrict__ grad_logits, int vocab,
                                                 float scale)
{
    extern __shared__ float shared[];

    int position = blockIdx.x;
    int tid = threadIdx.x;
    const float* row = logits + (size_t)position * vocab;
    float* grad_row = grad_logits + (size_t)position * vocab;
    if (mask != NULL && mask[position] == 0) {
        for (int i = tid; i < vocab; i += blockDim.x) {
            grad_row[i] = 0.0f;
        }
        return;
    }

    float thread_max = -INFINITY;
    for (int i = tid; i < vocab; i += blockDim.x) {
        thread_max = fmaxf(thread_max, row[i]);
    }
    shared[tid] = thread_max;
    __syncthreads();
    for (int active = blockDim.x; active > 1;) {
        int half = (active + 1) / 2;
        if (tid + half < active) {
            shared[tid] = fmaxf(shared[tid], shared[tid + half]);
        }
        __syncthreads();
        active = half;
    }
    float max_logit = shared[0];
    __syncthreads();

    float thread_sum = 0.0f;
    float lost = 0.0f;
    for (int i = tid; i < vocab; i += blockDim.x) {
        kahan_add(expf(row[i] - max_logit), &thread_sum, &lost);
    }
    shared[tid] = thread_sum;
    __syncthreads();
    for (int active = blockDim.x; active > 1;) {
        int half = (active + 1) / 2;
        if (tid + half < active) {
            shared[tid] += shared[tid + half];
        }
        __syncthreads();
        active = half;
    }
    float sum = shared[0];

    int target = targets[position];
    for (int i = tid; i < vocab; i += blockDim.x) {
        float probability = expf(row[i] - max_logit) / sum;
        float indicator = i == target ? 1.0f : 0.0f;
        grad_row[i] = (probability - indicator) * scale;
    }
}

// The number of positions that count.
static int count_unmasked(const unsigned char* mask, int positions)
{
    if (mask == NULL) {
        return positions;
    }
    unsigned char* flags = (unsigned char*)malloc(positions);
    CUDA_CHECK(cudaMemcpy(flags, mask, positions, cudaMemcpyDeviceToHost));
    int count = 0;
    for (int i = 0; i < positions; i++) {
        count += flags[i] != 0;
    }
    free(flags);
    return count;
}

float lm_cross_entropy_loss(const float* logits, const int* targets, const unsigned char* mask,
                            int batch, int seq, int vocab)
{
    int positions = batch * seq;
    size_t bytes = positions * sizeof(float);
    float* device_losses = NULL;
    CUDA_CHECK(cudaMalloc((void**)&device_losses, bytes));

    int block = 128;
    int grid = (positions + block - 1) / block;
    lm_cross_entropy_loss_kernel<<<grid, block>>>(logits, targets, mask, device_losses, positions,
                                                  vocab);
    if (!launch_accepted("lm_cross_entropy_loss_kernel")) {
        CUDA_CHECK(cudaFree(device_losses));
        return NAN;
    }

    float* losses = (float*)malloc(bytes);
    CUDA_CHECK(cudaMemcpy(losses, device_losses, bytes, cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaFree(device_losses));
    double total = 0.0;
    for (int i = 0; i < positions; i++) {
        total += losses[i];
    }
    free(losses);

    int count = count_unmasked(mask, positions);
    return count > 0 ? (float)(total / count) : 0.0f;
}

void lm_cross_entropy_gradient(const float* logits, const int* targets, float* grad_logits,
                               int batch, int seq, int vocab, const unsigned char* mask)
{
    int positions = batch * seq;
    int count = count_unmasked(mask, positions);
    float scale = count > 0 ? 1.0f / count : 0.0f;

    int block = vocab <= 1024 ? vocab : 256;
    lm_cross_entropy_gradient_kernel<<<positions, block, block * sizeof(float)>>>(
        logits, targets, mask, grad_logits, vocab, scale);
    if (launch_accepted("lm_cross_entropy_gradient_kernel")) {
        CUDA_CHECK(cudaDeviceSynchronize());
    }
}
