// Layer normalisation of every row, and the gradients of input and gain.

#include "sized.cuh"

constexpr int EPSILON = 1, MEAN = 2, VARIANCE = 3, GAIN = 4, PRODUCT = 5, GRAD_X = 6, Y = 7,
              GRAD_GAIN = 8;
constexpr int RSQRT = 1, WELFORD = 2, FACTORED = 3;

// A thread per row.
template <class T>
__global__ void layernorm_kernel(Change change, const float* x, const float* gain,
                                 const float* grad_y, T* y, T* grad_x, float* means,
                                 float* inverses, int rows, int cols)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) {
        return;
    }
    int begin = row * cols;
    int way = way_of(change);
    float mean = 0.0f, squares = 0.0f;
    if (way == WELFORD) {
        for (int i = 0; i < cols; i++) {
            float before = x[begin + i] - mean;
            mean += before / (i + 1);
            squares += before * (x[begin + i] - mean);
        }
        mean = changed(change, MEAN, row, -1, mean);
    } else {
        mean = total(change, cols, [=](int i) { return x[begin + i]; }) / cols;
        mean = changed(change, MEAN, row, -1, mean);
        squares = total(change, cols, [=](int i) {
            float centred = x[begin + i] - mean;
            return centred * centred;
        });
    }
    float variance = changed(change, VARIANCE, row, -1, squares / cols);
    float epsilon = changed(change, EPSILON, row, -1, 1e-5f);
    float inverse = way == RSQRT ? rsqrtf(variance + epsilon) : 1.0f / sqrtf(variance + epsilon);
    auto factor = [=](int i) { return changed(change, GAIN, -1, i, gain[i]); };
    auto normed = [=](int i) { return (x[begin + i] - mean) * inverse; };
    auto scaled = [=](int i) { return grad_y[begin + i] * factor(i); };
    float mean_scaled = total(change, cols, scaled) / cols;
    float product = total(change, cols, [=](int i) { return scaled(i) * normed(i); }) / cols;
    product = changed(change, PRODUCT, row, -1, product);
    for (int i = 0; i < cols; i++) {
        float value = way == FACTORED ? factor(i) * inverse * (x[begin + i] - mean)
                                      : normed(i) * factor(i);
        y[begin + i] = T(changed(change, Y, row, i, value));
        float gradient = way == FACTORED
                             ? inverse * scaled(i) - inverse * (mean_scaled + normed(i) * product)
                             : inverse * (scaled(i) - mean_scaled - normed(i) * product);
        grad_x[begin + i] = T(changed(change, GRAD_X, row, i, gradient));
    }
    means[row] = mean;
    inverses[row] = inverse;
}

// A thread per column.
template <class T>
__global__ void grad_gain_kernel(Change change, const float* x, const float* grad_y,
                                 const float* means, const float* inverses, T* grad_gain, int rows,
                                 int cols)
{
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= cols) {
        return;
    }
    float sum = total(change, rows, [=](int row) {
        int at = row * cols + column;
        return grad_y[at] * ((x[at] - means[row]) * inverses[row]);
    });
    grad_gain[column] = T(changed(change, GRAD_GAIN, -1, column, sum));
}

template <class T>
void layernorm(Change change, const float* x, const float* gain, const float* grad_y, T* y,
               T* grad_x, T* grad_gain, int rows, int cols)
{
    float* means = NULL;
    float* inverses = NULL;
    cudaMalloc((void**)&means, rows * sizeof(float));
    cudaMalloc((void**)&inverses, rows * sizeof(float));
    layernorm_kernel<T><<<(rows + 3) / 4, 4>>>(change, x, gain, grad_y, y, grad_x, means, inverses,
                                               rows, cols);
    grad_gain_kernel<T><<<(cols + 7) / 8, 8>>>(change, x, grad_y, means, inverses, grad_gain, rows,
                                               cols);
    cudaFree(means);
    cudaFree(inverses);
}
