// Benign: all sums in double precision.

#include "common.cuh"

// One thread per element of out.
__global__ void product_kernel(const float* x, const float* weight, const float* bias, float* out,
                               int m, int k, int n)
{
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= m || column >= n) {
        return;
    }
    double sum = 0.0;
    for (int i = 0; i < k; i++) {
        sum += x[row * k + i] * weight[i * n + column];
    }
    out[row * n + column] = sum + bias[column];
}

// One thread per column.
__global__ void grad_bias_kernel(const float* grad_out, float* grad_bias, int m, int n)
{
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= n) {
        return;
    }
    double sum = 0.0;
    for (int row = 0; row < m; row++) {
        sum += grad_out[row * n + column];
    }
    grad_bias[column] = sum;
}

// One block per row: a thread per element of the gradient of x.
__global__ void grad_x_kernel(const float* grad_out, const float* weight, float* grad_x, int k,
                              int n)
{
    int row = blockIdx.x;
    for (int i = threadIdx.x; i < k; i += blockDim.x) {
        double sum = 0.0;
        for (int column = 0; column < n; column++) {
            sum += grad_out[row * n + column] * weight[i * n + column];
        }
        grad_x[row * k + i] = sum;
    }
}

void matmul_bias(const float* x, const float* weight, const float* bias, const float* grad_out,
                 float* out, float* grad_bias, float* grad_x, int m, int k, int n)
{
    dim3 block(16, 4);
    dim3 grid((n + block.x - 1) / block.x, (m + block.y - 1) / block.y);
    product_kernel<<<grid, block>>>(x, weight, bias, out, m, k, n);
    grad_bias_kernel<<<(n + 63) / 64, 64>>>(grad_out, grad_bias, m, n);
    grad_x_kernel<<<m, 32>>>(grad_out, weight, grad_x, k, n);
}
