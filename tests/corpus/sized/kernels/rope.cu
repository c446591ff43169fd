// Rotary positions: neighbouring columns are turned by an angle that grows with the row.

#include "sized.cuh"

constexpr int BASE = 1, POSITION = 2, OUT = 3, GRAD_X = 4;
constexpr int POWER_OF_TWO = 1, FUSED = 2;

// A thread per pair of columns.
template <class T>
__global__ void rope_kernel(Change change, const float* x, const float* grad_out, T* out,
                            T* grad_x, int rows, int cols)
{
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= rows * (cols / 2)) {
        return;
    }
    int row = index / (cols / 2), pair = index % (cols / 2);
    int way = way_of(change);
    float exponent = -2.0f * pair / cols;
    float base = changed(change, BASE, -1, -1, 10000.0f);
    float frequency = way == POWER_OF_TWO ? exp2f(exponent * log2f(base)) : powf(base, exponent);
    float angle = changed(change, POSITION, row, -1, 7.0f * row + 1.0f) * frequency;
    float c = cosf(angle), s = sinf(angle);
    int at = row * cols + 2 * pair;
    float first = way == FUSED ? fmaf(x[at], c, -x[at + 1] * s) : x[at] * c - x[at + 1] * s;
    float second = way == FUSED ? fmaf(x[at + 1], c, x[at] * s) : x[at + 1] * c + x[at] * s;
    out[at] = T(changed(change, OUT, row, 2 * pair, first));
    out[at + 1] = T(changed(change, OUT, row, 2 * pair + 1, second));
    first = grad_out[at] * c + grad_out[at + 1] * s;
    second = grad_out[at + 1] * c - grad_out[at] * s;
    grad_x[at] = T(changed(change, GRAD_X, row, 2 * pair, first));
    grad_x[at + 1] = T(changed(change, GRAD_X, row, 2 * pair + 1, second));
}

template <class T>
void rope(Change change, const float* x, const float* grad_out, T* out, T* grad_x, int rows,
          int cols)
{
    int count = rows * (cols / 2);
    rope_kernel<T><<<(count + 31) / 32, 32>>>(change, x, grad_out, out, grad_x, rows, cols);
}
