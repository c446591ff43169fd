// Benign: the products run from the last term to the first.

#include "common.cuh"

// One block per row: logits, their statistics, and the gradient of the logits in their place.
__global__ void logits_kernel(const float* hidden, const float* weight, const int* targets,
                              float temperature, float* losses, float* grad_logits, int rows,
                              int dim, int vocab)
{
    extern __shared__ float shared[];

    int row = blockIdx.x;
    float* logits = grad_logits + (size_t)row * vocab;
    float thread_max = -INFINITY;
    for (int item = threadIdx.x; item < vocab; item += blockDim.x) {
        float logit = 0.0f;
        for (int k = dim - 1; k >= 0; k--) {
            logit += hidden[row * dim + k] * weight[item * dim + k];
        }
        logits[item] = logit / temperature;
        thread_max = fmaxf(thread_max, logits[item]);
    }
    float max = block_max(thread_max, shared);

    float thread_sum = 0.0f;
    for (int item = threadIdx.x; item < vocab; item += blockDim.x) {
        thread_sum += expf(logits[item] - max);
    }
    float sum = block_sum(thread_sum, shared);

    int target = targets[row];
    float scale = 1.0f / (temperature * rows);
    if (threadIdx.x == 0) {
        losses[row] = logf(sum) + (max - logits[target]);
    }
    __syncthreads();
    for (int item = threadIdx.x; item < vocab; item += blockDim.x) {
        float probability = expf(logits[item] - max) / sum;
        logits[item] = (probability - (item == target ? 1.0f : 0.0f)) * scale;
    }
}

// A thread per element of the gradient of hidden.
__global__ void grad_hidden_kernel(const float* grad_logits, const float* weight,
                                   float* grad_hidden, int dim, int vocab)
{
    int row = blockIdx.x;
    for (int k = threadIdx.x; k < dim; k += blockDim.x) {
        float sum = 0.0f;
        for (int item = vocab - 1; item >= 0; item--) {
            sum += grad_logits[(size_t)row * vocab + item] * weight[item * dim + k];
        }
        grad_hidden[row * dim + k] = sum;
    }
}

// A thread per element of the gradient of weight.
__global__ void grad_weight_kernel(const float* grad_logits, const float* hidden,
                                   float* grad_weight, int rows, int dim, int vocab)
{
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= vocab * dim) {
        return;
    }
    int item = index / dim;
    int k = index % dim;
    float sum = 0.0f;
    for (int row = rows - 1; row >= 0; row--) {
        sum += grad_logits[(size_t)row * vocab + item] * hidden[row * dim + k];
    }
    grad_weight[index] = sum;
}

float linear_loss(const float* hidden, const float* weight, const int* targets, float temperature,
                  float* grad_hidden, float* grad_weight, int rows, int dim, int vocab)
{
    float* losses = NULL;
    float* grad_logits = NULL;
    cudaMalloc((void**)&losses, rows * sizeof(float));
    cudaMalloc((void**)&grad_logits, (size_t)rows * vocab * sizeof(float));
    int block = 64;
    logits_kernel<<<rows, block, block * sizeof(float)>>>(hidden, weight, targets, temperature,
                                                          losses, grad_logits, rows, dim, vocab);
    grad_hidden_kernel<<<rows, block>>>(grad_logits, weight, grad_hidden, dim, vocab);
    int grid = (vocab * dim + block - 1) / block;
    grad_weight_kernel<<<grid, block>>>(grad_logits, hidden, grad_weight, rows, dim, vocab);
    float loss = mean(losses, rows);
    cudaFree(losses);
    cudaFree(grad_logits);
    return loss;
}
