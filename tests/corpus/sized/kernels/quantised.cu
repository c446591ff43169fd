// Fake quantisation: every row on a grid of 127 steps up to its largest magnitude.

#include "sized.cuh"

constexpr int STEP = 1, OUT = 2;
constexpr int RECIPROCAL = 1, SCALED_FIRST = 2;

// A thread per row.
template <class T>
__global__ void quantised_kernel(Change change, const float* x, T* out, int rows, int cols)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) {
        return;
    }
    int begin = row * cols;
    int way = way_of(change);
    float max = 0.0f;
    for (int i = 0; i < cols; i++) {
        max = fmaxf(max, fabsf(x[begin + i]));
    }
    float step = changed(change, STEP, row, -1, max / 127.0f);
    for (int i = 0; i < cols; i++) {
        float steps = 0.0f;
        if (step > 0.0f) {
            steps = way == RECIPROCAL     ? x[begin + i] * (1.0f / step)
                    : way == SCALED_FIRST ? 127.0f * x[begin + i] / (127.0f * step)
                                          : x[begin + i] / step;
        }
        out[begin + i] = T(changed(change, OUT, row, i, rintf(steps) * step));
    }
}

template <class T>
void quantised(Change change, const float* x, T* out, int rows, int cols)
{
    quantised_kernel<T><<<(rows + 3) / 4, 4>>>(change, x, out, rows, cols);
}
