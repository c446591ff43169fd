// Benign: one thread per row, serial sums.

#include "common.cuh"

__global__ void softmax_kernel(const float* x, const float* grad_y, float* y, float* grad_x,
                               int rows, int cols)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) {
        return;
    }
    size_t begin = (size_t)row * cols;
    float max = x[begin];
    for (int i = 1; i < cols; i++) {
        max = fmaxf(max, x[begin + i]);
    }
    float sum = 0.0f;
    for (int i = 0; i < cols; i++) {
        y[begin + i] = expf(x[begin + i] - max);
        sum += y[begin + i];
    }
    float dot = 0.0f;
    for (int i = 0; i < cols; i++) {
        y[begin + i] /= sum;
        dot += y[begin + i] * grad_y[begin + i];
    }
    for (int i = 0; i < cols; i++) {
        grad_x[begin + i] = y[begin + i] * (grad_y[begin + i] - dot);
    }
}

void softmax(const float* x, const float* grad_y, float* y, float* grad_x, int rows, int cols)
{
    int block = 32;
    softmax_kernel<<<(rows + block - 1) / block, block>>>(x, grad_y, y, grad_x, rows, cols);
}
