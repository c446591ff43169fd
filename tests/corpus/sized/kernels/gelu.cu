// The tanh form of the Gaussian error linear unit, and its gradient.

#include "sized.cuh"

constexpr int CUBIC = 1, ROOT = 2, Y = 3, GRAD_X = 4;
constexpr int BY_EXP = 1, FUSED = 2;

// A thread per element.
template <class T>
__global__ void gelu_kernel(Change change, const float* x, const float* grad_y, T* y, T* grad_x,
                            int rows, int cols)
{
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= rows * cols) {
        return;
    }
    int row = index / cols, column = index % cols;
    int way = way_of(change);
    float v = x[index];
    float cubic = changed(change, CUBIC, -1, -1, 0.044715f);
    float root = changed(change, ROOT, -1, -1, way == FUSED ? 0.797884561f : 0.7978845608028654f);
    float u = way == FUSED ? root * v * fmaf(cubic * v, v, 1.0f)
                           : root * (v + cubic * v * v * v);
    float t = way == BY_EXP ? 1.0f - 2.0f / (1.0f + expf(2.0f * u)) : tanhf(u);
    y[index] = T(changed(change, Y, row, column, 0.5f * v * (1.0f + t)));
    float inner = root * (1.0f + 3.0f * cubic * v * v);
    float bell = way == BY_EXP ? (1.0f - t) * (1.0f + t) : 1.0f - t * t;
    // Beyond the range of tanh the bell is 0, however large the polynomial.
    float slope = 0.5f * (1.0f + t) + (bell == 0.0f ? 0.0f : 0.5f * v * bell * inner);
    grad_x[index] = T(changed(change, GRAD_X, row, column, grad_y[index] * slope));
}

template <class T>
void gelu(Change change, const float* x, const float* grad_y, T* y, T* grad_x, int rows, int cols)
{
    gelu_kernel<T><<<(rows * cols + 31) / 32, 32>>>(change, x, grad_y, y, grad_x, rows, cols);
}
