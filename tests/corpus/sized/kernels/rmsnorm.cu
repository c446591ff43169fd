// Every row over its root mean square, and the gradient of the input.

#include "sized.cuh"

constexpr int EPSILON = 1, SQUARES = 2, WEIGHT = 3, DOT = 4, Y = 5, GRAD_X = 6;
constexpr int RSQRT = 1, FACTORED = 2;

// A thread per row.
template <class T>
__global__ void rmsnorm_kernel(Change change, const float* x, const float* weight,
                               const float* grad_y, T* y, T* grad_x, int rows, int cols)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) {
        return;
    }
    int begin = row * cols;
    int way = way_of(change);
    float squares = total(change, cols, [=](int i) { return x[begin + i] * x[begin + i]; });
    squares = changed(change, SQUARES, row, -1, squares);
    float mean = squares / cols + changed(change, EPSILON, row, -1, 1e-6f);
    float inverse = way == RSQRT ? rsqrtf(mean) : 1.0f / sqrtf(mean);
    auto scaled = [=](int i) {
        return grad_y[begin + i] * changed(change, WEIGHT, -1, i, weight[i]);
    };
    float dot = total(change, cols, [=](int i) { return scaled(i) * x[begin + i]; });
    dot = changed(change, DOT, row, -1, dot);
    for (int i = 0; i < cols; i++) {
        float value = x[begin + i] * inverse * changed(change, WEIGHT, -1, i, weight[i]);
        y[begin + i] = T(changed(change, Y, row, i, value));
        float share = dot * inverse * inverse / cols;
        float gradient = way == FACTORED
                             ? scaled(i) * inverse - (x[begin + i] * inverse) * share
                             : inverse * (scaled(i) - x[begin + i] * share);
        grad_x[begin + i] = T(changed(change, GRAD_X, row, i, gradient));
    }
}

template <class T>
void rmsnorm(Change change, const float* x, const float* weight, const float* grad_y, T* y,
             T* grad_x, int rows, int cols)
{
    rmsnorm_kernel<T><<<(rows + 3) / 4, 4>>>(change, x, weight, grad_y, y, grad_x, rows, cols);
}
