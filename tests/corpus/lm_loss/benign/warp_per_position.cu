// Benign: one warp per position, reductions by shuffles.

#include "common.cuh"

__global__ void lm_loss_kernel(const float* logits, const int* targets, const unsigned char* mask,
                               float* losses, float* grad_logits, int vocab, float scale)
{
    int position = blockIdx.x;
    const float* row = logits + (size_t)position * vocab;
    float* grad_row = grad_logits + (size_t)position * vocab;
    if (mask != NULL && mask[position] == 0) {
        for (int i = threadIdx.x; i < vocab; i += blockDim.x) {
            grad_row[i] = 0.0f;
        }
        if (threadIdx.x == 0) {
            losses[position] = 0.0f;
        }
        return;
    }

    float thread_max = -INFINITY;
    for (int i = threadIdx.x; i < vocab; i += blockDim.x) {
        thread_max = fmaxf(thread_max, row[i]);
    }
    float max_logit = warp_max(thread_max);

    float thread_sum = 0.0f;
    for (int i = threadIdx.x; i < vocab; i += blockDim.x) {
        thread_sum += expf(row[i] - max_logit);
    }
    float sum = warp_sum(thread_sum);

    int target = targets[position];
    for (int i = threadIdx.x; i < vocab; i += blockDim.x) {
        float probability = expf(row[i] - max_logit) / sum;
        grad_row[i] = (probability - (i == target ? 1.0f : 0.0f)) * scale;
    }
    if (threadIdx.x == 0) {
        losses[position] = logf(sum) + (max_logit - row[target]);
    }
}

float lm_loss(const float* logits, const int* targets, const unsigned char* mask,
              float* grad_logits, int positions, int vocab)
{
    float scale = 1.0f / count_unmasked(mask, positions);
    float* losses = NULL;
    cudaMalloc((void**)&losses, positions * sizeof(float));
    int block = 32;
    lm_loss_kernel<<<positions, block>>>(logits, targets, mask, losses, grad_logits, vocab, scale);
    float loss = total(losses, positions) * scale;
    cudaFree(losses);
    return loss;
}
