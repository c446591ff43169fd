// A matrix product with a bias, the gradient of the bias and that of the left factor.

#include "sized.cuh"

constexpr int BIAS = 1, LEFT = 2, OUT = 3, GRAD_BIAS = 4, GRAD_X = 5;
constexpr int FUSED = 1, BIAS_FIRST = 2;

// A thread per element of out.
template <class T>
__global__ void product_kernel(Change change, const float* x, const float* weight,
                               const float* bias, T* out, int rows, int inner, int cols)
{
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= rows * cols) {
        return;
    }
    int row = index / cols, column = index % cols;
    int way = way_of(change);
    auto left = [=](int i) { return changed(change, LEFT, row, i, x[row * inner + i]); };
    float offset = changed(change, BIAS, -1, column, bias[column]);
    float sum = way == BIAS_FIRST ? offset : 0.0f;
    if (way == FUSED) {
        for (int i = 0; i < inner; i++) {
            sum = fmaf(left(i), weight[i * cols + column], sum);
        }
    } else {
        sum += total(change, inner, [=](int i) { return left(i) * weight[i * cols + column]; });
    }
    sum = way == BIAS_FIRST ? sum : sum + offset;
    out[index] = T(changed(change, OUT, row, column, sum));
}

// A thread per column.
template <class T>
__global__ void grad_bias_kernel(Change change, const float* grad_out, T* grad_bias, int rows,
                                 int cols)
{
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= cols) {
        return;
    }
    float sum = total(change, rows, [=](int row) { return grad_out[row * cols + column]; });
    grad_bias[column] = T(changed(change, GRAD_BIAS, -1, column, sum));
}

// A thread per element of the gradient of x.
template <class T>
__global__ void grad_x_kernel(Change change, const float* grad_out, const float* weight, T* grad_x,
                              int rows, int inner, int cols)
{
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= rows * inner) {
        return;
    }
    int row = index / inner, i = index % inner;
    float sum = total(change, cols, [=](int column) {
        return grad_out[row * cols + column] * weight[i * cols + column];
    });
    grad_x[index] = T(changed(change, GRAD_X, row, i, sum));
}

template <class T>
void matmul_bias(Change change, const float* x, const float* weight, const float* bias,
                 const float* grad_out, T* out, T* grad_bias, T* grad_x, int rows, int inner,
                 int cols)
{
    product_kernel<T><<<(rows * cols + 31) / 32, 32>>>(change, x, weight, bias, out, rows, inner,
                                                       cols);
    grad_bias_kernel<T><<<(cols + 7) / 8, 8>>>(change, grad_out, grad_bias, rows, cols);
    grad_x_kernel<T><<<(rows * inner + 31) / 32, 32>>>(change, grad_out, weight, grad_x, rows,
                                                       inner, cols);
}
