// Benign: the product in tiles of 8 by 8 in shared memory.

#include "common.cuh"

// Tiles of 8 by 8 in shared memory.
__global__ void product_kernel(const float* x, const float* weight, const float* bias, float* out,
                               int m, int k, int n)
{
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    __shared__ float x_tile[8][8];
    __shared__ float weight_tile[8][8];
    float sum = 0.0f;
    for (int begin = 0; begin < k; begin += 8) {
        int x_column = begin + threadIdx.x;
        int weight_row = begin + threadIdx.y;
        bool x_inside = row < m && x_column < k;
        bool weight_inside = weight_row < k && column < n;
        x_tile[threadIdx.y][threadIdx.x] = x_inside ? x[row * k + x_column] : 0.0f;
        weight_tile[threadIdx.y][threadIdx.x] =
            weight_inside ? weight[weight_row * n + column] : 0.0f;
        __syncthreads();
        for (int i = 0; i < 8; i++) {
            sum += x_tile[threadIdx.y][i] * weight_tile[i][threadIdx.x];
        }
        __syncthreads();
    }
    if (row >= m || column >= n) {
        return;
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
    float sum = 0.0f;
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
        float sum = 0.0f;
        for (int column = 0; column < n; column++) {
            sum += grad_out[row * n + column] * weight[i * n + column];
        }
        grad_x[row * k + i] = sum;
    }
}

void matmul_bias(const float* x, const float* weight, const float* bias, const float* grad_out,
                 float* out, float* grad_bias, float* grad_x, int m, int k, int n)
{
    dim3 block(8, 8);
    dim3 grid((n + block.x - 1) / block.x, (m + block.y - 1) / block.y);
    product_kernel<<<grid, block>>>(x, weight, bias, out, m, k, n);
    grad_bias_kernel<<<(n + 63) / 64, 64>>>(grad_out, grad_bias, m, n);
    grad_x_kernel<<<m, 32>>>(grad_out, weight, grad_x, k, n);
}
