// A gated unit silu(a) * b, and its gradients.

#include "sized.cuh"

constexpr int SIGMOID = 1, Y = 2, SLOPE = 3, GRAD_A = 4, GRAD_B = 5;
constexpr int TANH = 1, POWER_OF_TWO = 2, QUOTIENT = 3;

static __device__ float sigmoid(int way, float x)
{
    if (way == TANH) {
        return 0.5f * tanhf(0.5f * x) + 0.5f;
    }
    if (way == POWER_OF_TWO) {
        return 1.0f / (1.0f + exp2f(-1.44269504f * x));
    }
    return 1.0f / (1.0f + expf(-x));
}

// A thread per element.
template <class T>
__global__ void gated_kernel(Change change, const float* a, const float* b, const float* grad_y,
                             T* y, T* grad_a, T* grad_b, int rows, int cols)
{
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= rows * cols) {
        return;
    }
    int row = index / cols, column = index % cols;
    int way = way_of(change);
    float s = changed(change, SIGMOID, row, column, sigmoid(way, a[index]));
    float silu = way == QUOTIENT && change.site != SIGMOID ? a[index] / (1.0f + expf(-a[index]))
                                                           : a[index] * s;
    float slope = way == QUOTIENT ? s + silu * (1.0f - s) : s * (1.0f + a[index] * (1.0f - s));
    slope = changed(change, SLOPE, row, column, slope);
    y[index] = T(changed(change, Y, row, column, silu * b[index]));
    grad_a[index] = T(changed(change, GRAD_A, row, column, grad_y[index] * b[index] * slope));
    grad_b[index] = T(changed(change, GRAD_B, row, column, grad_y[index] * silu));
}

template <class T>
void gated(Change change, const float* a, const float* b, const float* grad_y, T* y, T* grad_a,
           T* grad_b, int rows, int cols)
{
    gated_kernel<T><<<(rows * cols + 31) / 32, 32>>>(change, a, b, grad_y, y, grad_a, grad_b, rows,
                                                     cols);
}
