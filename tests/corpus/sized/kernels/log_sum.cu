// The logarithm of the sum of the exponentials of the first elements of every row, and their mean.
// A row without elements has minus infinity and NaN.

#include "sized.cuh"

constexpr int LOG_SUM = 1, LENGTH = 2;

// A thread per row.
template <class T>
__global__ void log_sum_kernel(Change change, const float* x, const int* lengths, T* log_sums,
                               T* means, int rows, int cols)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) {
        return;
    }
    int begin = row * cols;
    int length = (int)changed(change, LENGTH, row, -1, lengths[row]);
    Row stats = statistics(change, length, [=](int i) { return x[begin + i]; });
    float log_sum = length > 0 ? stats.max + logf(stats.sum) : -INFINITY;
    log_sums[row] = T(changed(change, LOG_SUM, row, -1, log_sum));
    float sum = total(change, length, [=](int i) { return x[begin + i]; });
    means[row] = T(sum / length);
}

template <class T>
void log_sum(Change change, const float* x, const int* lengths, T* log_sums, T* means, int rows,
             int cols)
{
    log_sum_kernel<T><<<(rows + 3) / 4, 4>>>(change, x, lengths, log_sums, means, rows, cols);
}
