// The gradient of an embedding table with weight decay; tokens of -1 are padding.

#include "sized.cuh"

constexpr int DECAY = 1, GRAD_OUT = 2, GRAD_TABLE = 3;
constexpr int SCATTER = 1, DECAY_LAST = 2;

// A thread per element of the table.
template <class T>
__global__ void gather_kernel(Change change, const float* table, const float* grad_out,
                              const int* tokens, const float* scattered, T* grad_table, int rows,
                              int vocab, int cols)
{
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= vocab * cols) {
        return;
    }
    int token = index / cols, column = index % cols;
    int way = way_of(change);
    float decayed = table[index] * changed(change, DECAY, -1, -1, 0.1f);
    auto term = [=](int row) {
        float value = changed(change, GRAD_OUT, row, column, grad_out[row * cols + column]);
        return tokens[row] == token ? value : 0.0f;
    };
    float sum = 0.0f;
    if (way == SCATTER) {
        sum = scattered[index] + decayed;
    } else if (way == DECAY_LAST) {
        sum = total(change, rows, term) + decayed;
    } else {
        sum = total(change, rows + 1, [=](int i) { return i == 0 ? decayed : term(i - 1); });
    }
    grad_table[index] = T(changed(change, GRAD_TABLE, token, column, sum));
}

// A thread per element of grad_out.
__global__ void scatter_kernel(Change change, const float* grad_out, const int* tokens,
                               float* scattered, int rows, int cols)
{
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= rows * cols || tokens[index / cols] < 0) {
        return;
    }
    int row = index / cols, column = index % cols;
    float value = changed(change, GRAD_OUT, row, column, grad_out[index]);
    atomicAdd(&scattered[tokens[row] * cols + column], value);
}

template <class T>
void embedding(Change change, const float* table, const float* grad_out, const int* tokens,
               T* grad_table, int rows, int vocab, int cols)
{
    float* scattered = NULL;
    cudaMalloc((void**)&scattered, vocab * cols * sizeof(float));
    cudaMemset(scattered, 0, vocab * cols * sizeof(float));
    scatter_kernel<<<(rows * cols + 31) / 32, 32>>>(change, grad_out, tokens, scattered, rows,
                                                    cols);
    gather_kernel<T><<<(vocab * cols + 31) / 32, 32>>>(change, table, grad_out, tokens, scattered,
                                                       grad_table, rows, vocab, cols);
    cudaFree(scattered);
}
