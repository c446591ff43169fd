// Benign: mean and variance in one pass (Welford), the threads' parts joined as Chan does.

#include "common.cuh"

// One block per row; keeps what the second kernel needs of the row.
__global__ void grad_x_kernel(const float* x, const float* gamma, const float* grad_y,
                              float epsilon, float* grad_x, float* means, float* inverses, int cols)
{
    extern __shared__ float shared[];

    size_t begin = (size_t)blockIdx.x * cols;
    float count = 0.0f;
    float thread_mean = 0.0f;
    float squares = 0.0f;
    for (int i = threadIdx.x; i < cols; i += blockDim.x) {
        count += 1.0f;
        float delta = x[begin + i] - thread_mean;
        thread_mean += delta / count;
        squares += delta * (x[begin + i] - thread_mean);
    }
    float mean = block_sum(thread_mean * count, shared) / cols;
    float offset = thread_mean - mean;
    float variance = block_sum(squares + count * offset * offset, shared) / cols;
    float inverse = 1.0f / sqrtf(variance + epsilon);

    float part_scaled = 0.0f;
    float part_product = 0.0f;
    for (int i = threadIdx.x; i < cols; i += blockDim.x) {
        float scaled = grad_y[begin + i] * gamma[i];
        part_scaled += scaled;
        part_product += scaled * ((x[begin + i] - mean) * inverse);
    }
    float mean_scaled = block_sum(part_scaled, shared) / cols;
    float mean_product = block_sum(part_product, shared) / cols;

    for (int i = threadIdx.x; i < cols; i += blockDim.x) {
        float normed = (x[begin + i] - mean) * inverse;
        float scaled = grad_y[begin + i] * gamma[i];
        grad_x[begin + i] = inverse * (scaled - mean_scaled - normed * mean_product);
    }
    if (threadIdx.x == 0) {
        means[blockIdx.x] = mean;
        inverses[blockIdx.x] = inverse;
    }
}

// One thread per column.
__global__ void grad_parameters_kernel(const float* x, const float* grad_y, const float* means,
                                       const float* inverses, float* grad_gamma, float* grad_beta,
                                       int rows, int cols)
{
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= cols) {
        return;
    }
    float sum_gamma = 0.0f;
    float sum_beta = 0.0f;
    for (int row = 0; row < rows; row++) {
        size_t index = (size_t)row * cols + column;
        sum_gamma += grad_y[index] * ((x[index] - means[row]) * inverses[row]);
        sum_beta += grad_y[index];
    }
    grad_gamma[column] = sum_gamma;
    grad_beta[column] = sum_beta;
}

void layernorm_backward(const float* x, const float* gamma, const float* grad_y, float epsilon,
                        float* grad_x, float* grad_gamma, float* grad_beta, int rows, int cols)
{
    float* means = NULL;
    float* inverses = NULL;
    cudaMalloc((void**)&means, rows * sizeof(float));
    cudaMalloc((void**)&inverses, rows * sizeof(float));
    int block = 64;
    grad_x_kernel<<<rows, block, block * sizeof(float)>>>(x, gamma, grad_y, epsilon, grad_x, means,
                                                          inverses, cols);
    grad_parameters_kernel<<<(cols + block - 1) / block, block>>>(
        x, grad_y, means, inverses, grad_gamma, grad_beta, rows, cols);
    cudaFree(means);
    cudaFree(inverses);
}
