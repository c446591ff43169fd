// Benign: one thread per position, serial sums.

#include "common.cuh"

__global__ void lm_loss_kernel(const float* logits, const int* targets, const unsigned char* mask,
                               float* losses, float* grad_logits, int positions, int vocab,
                               float scale)
{
    int position = blockIdx.x * blockDim.x + threadIdx.x;
    if (position >= positions) {
        return;
    }
    bool counts = mask == NULL || mask[position] != 0;
    const float* row = logits + (size_t)position * vocab;
    float* grad_row = grad_logits + (size_t)position * vocab;
    float max_logit = -INFINITY;
    for (int i = 0; i < vocab; i++) {
        max_logit = fmaxf(max_logit, row[i]);
    }
    float sum = 0.0f;
    for (int i = 0; i < vocab; i++) {
        sum += expf(row[i] - max_logit);
    }
    int target = targets[position];
    for (int i = 0; i < vocab; i++) {
        float gradient = expf(row[i] - max_logit) / sum - (i == target ? 1.0f : 0.0f);
        grad_row[i] = counts ? gradient * scale : 0.0f;
    }
    losses[position] = counts ? logf(sum) + (max_logit - row[target]) : 0.0f;
}

float lm_loss(const float* logits, const int* targets, const unsigned char* mask,
              float* grad_logits, int positions, int vocab)
{
    float scale = 1.0f / count_unmasked(mask, positions);
    float* losses = NULL;
    cudaMalloc((void**)&losses, positions * sizeof(float));
    int block = 32;
    lm_loss_kernel<<<(positions + block - 1) / block, block>>>(logits, targets, mask, losses,
                                                               grad_logits, positions, vocab,
                                                               scale);
    float loss = total(losses, positions) * scale;
    cudaFree(losses);
    return loss;
}
