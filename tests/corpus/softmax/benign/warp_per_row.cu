// Benign: one warp per row, reductions by shuffles.

#include "common.cuh"

__global__ void softmax_kernel(const float* x, const float* grad_y, float* y, float* grad_x,
                               int cols)
{
    size_t begin = (size_t)blockIdx.x * cols;
    float thread_max = -INFINITY;
    for (int i = threadIdx.x; i < cols; i += blockDim.x) {
        thread_max = fmaxf(thread_max, x[begin + i]);
    }
    float max = warp_max(thread_max);

    float thread_sum = 0.0f;
    for (int i = threadIdx.x; i < cols; i += blockDim.x) {
        thread_sum += expf(x[begin + i] - max);
    }
    float sum = warp_sum(thread_sum);

    float thread_dot = 0.0f;
    for (int i = threadIdx.x; i < cols; i += blockDim.x) {
        float probability = expf(x[begin + i] - max) / sum;
        y[begin + i] = probability;
        thread_dot += probability * grad_y[begin + i];
    }
    float dot = warp_sum(thread_dot);

    for (int i = threadIdx.x; i < cols; i += blockDim.x) {
        grad_x[begin + i] = y[begin + i] * (grad_y[begin + i] - dot);
    }
}

void softmax(const float* x, const float* grad_y, float* y, float* grad_x, int rows, int cols)
{
    softmax_kernel<<<rows, 32>>>(x, grad_y, y, grad_x, cols);
}
