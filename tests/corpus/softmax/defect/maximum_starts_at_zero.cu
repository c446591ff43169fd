// Defect: the maximum is at least 0: rows far below it sum to nothing.

#include "common.cuh"

__global__ void softmax_kernel(const float* x, const float* grad_y, float* y, float* grad_x,
                               int cols)
{
    extern __shared__ float shared[];

    size_t begin = (size_t)blockIdx.x * cols;
    float thread_max = 0.0f;
    for (int i = threadIdx.x; i < cols; i += blockDim.x) {
        thread_max = fmaxf(thread_max, x[begin + i]);
    }
    float max = block_max(thread_max, shared);

    float thread_sum = 0.0f;
    for (int i = threadIdx.x; i < cols; i += blockDim.x) {
        thread_sum += expf(x[begin + i] - max);
    }
    float sum = block_sum(thread_sum, shared);

    float thread_dot = 0.0f;
    for (int i = threadIdx.x; i < cols; i += blockDim.x) {
        float probability = expf(x[begin + i] - max) / sum;
        y[begin + i] = probability;
        thread_dot += probability * grad_y[begin + i];
    }
    float dot = block_sum(thread_dot, shared);

    for (int i = threadIdx.x; i < cols; i += blockDim.x) {
        grad_x[begin + i] = y[begin + i] * (grad_y[begin + i] - dot);
    }
}

void softmax(const float* x, const float* grad_y, float* y, float* grad_x, int rows, int cols)
{
    int block = 64;
    softmax_kernel<<<rows, block, block * sizeof(float)>>>(x, grad_y, y, grad_x, cols);
}
