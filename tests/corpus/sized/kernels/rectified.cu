// A rectified linear layer max(x * weight + bias, 0), and its gradients.

#include "sized.cuh"

constexpr int BIAS = 1, Y = 2, GRAD_X = 3, GRAD_BIAS = 4, GRAD_WEIGHT = 5;
constexpr int FUSED = 1, BIAS_FIRST = 2;

// The sum of one element before the rectifier.
static __device__ float before(Change change, const float* x, const float* weight,
                               const float* bias, int row, int column, int inner, int cols)
{
    int way = way_of(change);
    float offset = changed(change, BIAS, -1, column, bias[column]);
    if (way == FUSED) {
        float sum = offset;
        for (int i = 0; i < inner; i++) {
            sum = fmaf(x[row * inner + i], weight[i * cols + column], sum);
        }
        return sum;
    }
    float sum = total(change, inner, [=](int i) {
        return x[row * inner + i] * weight[i * cols + column];
    });
    return way == BIAS_FIRST ? offset + sum : sum + offset;
}

// A thread per element of y.
template <class T>
__global__ void forward_kernel(Change change, const float* x, const float* weight,
                               const float* bias, const float* grad_y, T* y, float* slopes,
                               int rows, int inner, int cols)
{
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= rows * cols) {
        return;
    }
    int row = index / cols, column = index % cols;
    float sum = before(change, x, weight, bias, row, column, inner, cols);
    y[index] = T(changed(change, Y, row, column, fmaxf(sum, 0.0f)));
    slopes[index] = sum > 0.0f ? grad_y[index] : 0.0f;
}

// A thread per element of the gradient of x.
template <class T>
__global__ void grad_x_kernel(Change change, const float* slopes, const float* weight, T* grad_x,
                              int rows, int inner, int cols)
{
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= rows * inner) {
        return;
    }
    int row = index / inner, i = index % inner;
    float sum = total(change, cols, [=](int column) {
        return slopes[row * cols + column] * weight[i * cols + column];
    });
    grad_x[index] = T(changed(change, GRAD_X, row, i, sum));
}

// A thread per element of the gradient of weight.
template <class T>
__global__ void grad_weight_kernel(Change change, const float* slopes, const float* x,
                                   T* grad_weight, int rows, int inner, int cols)
{
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= inner * cols) {
        return;
    }
    int i = index / cols, column = index % cols;
    float sum = total(change, rows, [=](int row) {
        return slopes[row * cols + column] * x[row * inner + i];
    });
    grad_weight[index] = T(changed(change, GRAD_WEIGHT, i, column, sum));
}

// A thread per column.
template <class T>
__global__ void grad_bias_kernel(Change change, const float* slopes, T* grad_bias, int rows,
                                 int cols)
{
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= cols) {
        return;
    }
    float sum = total(change, rows, [=](int row) { return slopes[row * cols + column]; });
    grad_bias[column] = T(changed(change, GRAD_BIAS, -1, column, sum));
}

template <class T>
void rectified(Change change, const float* x, const float* weight, const float* bias,
               const float* grad_y, T* y, T* grad_x, T* grad_weight, T* grad_bias, int rows,
               int inner, int cols)
{
    float* slopes = NULL;
    cudaMalloc((void**)&slopes, rows * cols * sizeof(float));
    forward_kernel<T><<<(rows * cols + 31) / 32, 32>>>(change, x, weight, bias, grad_y, y, slopes,
                                                       rows, inner, cols);
    grad_x_kernel<T><<<(rows * inner + 31) / 32, 32>>>(change, slopes, weight, grad_x, rows, inner,
                                                       cols);
    grad_weight_kernel<T><<<(inner * cols + 31) / 32, 32>>>(change, slopes, x, grad_weight, rows,
                                                            inner, cols);
    grad_bias_kernel<T><<<(cols + 7) / 8, 8>>>(change, slopes, grad_bias, rows, cols);
    cudaFree(slopes);
}
