// A gradient clipped to a norm of 4.

#include "sized.cuh"

constexpr int NORM = 1, BOUND = 2, OUT = 3;
constexpr int SCALED_FIRST = 1, BY_ROWS = 2;

// One thread.
__global__ void norm_kernel(Change change, const float* x, float* norm, int rows, int cols)
{
    float squares = 0.0f;
    if (way_of(change) == BY_ROWS) {
        squares = total(change, rows, [=](int row) {
            return total(change, cols, [=](int i) { return x[row * cols + i] * x[row * cols + i]; });
        });
    } else {
        squares = total(change, rows * cols, [=](int i) { return x[i] * x[i]; });
    }
    *norm = changed(change, NORM, -1, -1, sqrtf(squares));
}

// A thread per element.
template <class T>
__global__ void clip_kernel(Change change, const float* x, const float* norm, T* out, int rows,
                            int cols)
{
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= rows * cols) {
        return;
    }
    float bound = changed(change, BOUND, -1, -1, 4.0f);
    float share = fminf(1.0f, bound / (*norm + 1e-6f));
    float value = way_of(change) == SCALED_FIRST && share < 1.0f
                      ? x[index] * bound / (*norm + 1e-6f)
                      : x[index] * share;
    out[index] = T(changed(change, OUT, index / cols, index % cols, value));
}

template <class T>
void clip(Change change, const float* x, T* out, int rows, int cols)
{
    float* norm = NULL;
    cudaMalloc((void**)&norm, sizeof(float));
    norm_kernel<<<1, 1>>>(change, x, norm, rows, cols);
    clip_kernel<T><<<(rows * cols + 31) / 32, 32>>>(change, x, norm, out, rows, cols);
    cudaFree(norm);
}
