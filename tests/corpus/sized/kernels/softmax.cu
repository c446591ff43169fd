// Softmax of every row, and its gradient.

#include "sized.cuh"

constexpr int LOGIT = 1, SUM = 2, DOT = 3, Y = 4, GRAD_X = 5;

// A thread per row.
template <class T>
__global__ void softmax_kernel(Change change, const float* x, const float* grad_y, T* y, T* grad_x,
                               int rows, int cols)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) {
        return;
    }
    int begin = row * cols;
    auto logit = [=](int i) { return changed(change, LOGIT, row, i, x[begin + i]); };
    Row stats = statistics(change, cols, logit);
    stats.sum = changed(change, SUM, row, -1, stats.sum);
    auto share = [=](int i) { return probability(change, stats, logit(i)); };
    float dot = total(change, cols, [=](int i) { return share(i) * grad_y[begin + i]; });
    dot = changed(change, DOT, row, -1, dot);
    for (int i = 0; i < cols; i++) {
        float p = share(i);
        y[begin + i] = T(changed(change, Y, row, i, p));
        grad_x[begin + i] = T(changed(change, GRAD_X, row, i, p * (grad_y[begin + i] - dot)));
    }
}

template <class T>
void softmax(Change change, const float* x, const float* grad_y, T* y, T* grad_x, int rows,
             int cols)
{
    softmax_kernel<T><<<(rows + 3) / 4, 4>>>(change, x, grad_y, y, grad_x, rows, cols);
}
