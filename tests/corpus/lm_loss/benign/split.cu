// Benign: two kernels: the statistics of each row, then loss and gradient.

#include "common.cuh"

__global__ void row_statistics_kernel(const float* logits, float* maxima, float* sums, int vocab)
{
    extern __shared__ float shared[];

    const float* row = logits + (size_t)blockIdx.x * vocab;
    float thread_max = -INFINITY;
    for (int i = threadIdx.x; i < vocab; i += blockDim.x) {
        thread_max = fmaxf(thread_max, row[i]);
    }
    float max_logit = block_max(thread_max, shared);

    float thread_sum = 0.0f;
    for (int i = threadIdx.x; i < vocab; i += blockDim.x) {
        thread_sum += expf(row[i] - max_logit);
    }
    float sum = block_sum(thread_sum, shared);
    if (threadIdx.x == 0) {
        maxima[blockIdx.x] = max_logit;
        sums[blockIdx.x] = sum;
    }
}

__global__ void gradient_kernel(const float* logits, const int* targets, const unsigned char* mask,
                                const float* maxima, const float* sums, float* losses,
                                float* grad_logits, int vocab, float scale)
{
    int position = blockIdx.y;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= vocab) {
        return;
    }
    size_t index = (size_t)position * vocab + i;
    bool counts = mask == NULL || mask[position] != 0;
    bool is_target = i == targets[position];
    float shifted = logits[index] - maxima[position];
    float gradient = expf(shifted) / sums[position] - (is_target ? 1.0f : 0.0f);
    grad_logits[index] = counts ? gradient * scale : 0.0f;
    if (is_target) {
        losses[position] = counts ? logf(sums[position]) - shifted : 0.0f;
    }
}

float lm_loss(const float* logits, const int* targets, const unsigned char* mask,
              float* grad_logits, int positions, int vocab)
{
    float scale = 1.0f / count_unmasked(mask, positions);
    float* scratch = NULL;
    cudaMalloc((void**)&scratch, 3 * positions * sizeof(float));
    float* maxima = scratch;
    float* sums = scratch + positions;
    float* losses = scratch + 2 * positions;
    int block = 64;
    row_statistics_kernel<<<positions, block, block * sizeof(float)>>>(logits, maxima, sums, vocab);
    dim3 grid((vocab + block - 1) / block, positions);
    gradient_kernel<<<grid, block>>>(logits, targets, mask, maxima, sums, losses, grad_logits,
                                     vocab, scale);
    float loss = total(losses, positions) * scale;
    cudaFree(scratch);
    return loss;
}
