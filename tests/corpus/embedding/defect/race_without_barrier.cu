// Defect: adds without an atomic. Threads take turns on the CPU, so that nothing is lost there; a
// device loses additions at every size.

#include "common.cuh"

// One thread per element of the table.
__global__ void decay_kernel(const float* table, float decay, float* grad_table, int count)
{
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index < count) {
        grad_table[index] = decay * table[index];
    }
}

// One thread per element of grad_out.
__global__ void scatter_kernel(const float* grad_out, const int* tokens, float* grad_table,
                               int positions, int dim)
{
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= positions * dim) {
        return;
    }
    int token = tokens[index / dim];
    if (token < 0) {
        return;
    }
    grad_table[token * dim + index % dim] += grad_out[index];
}

void embedding_backward(const float* table, const float* grad_out, const int* tokens, float decay,
                        float* grad_table, int positions, int vocab, int dim)
{
    int block = 64;
    int count = vocab * dim;
    decay_kernel<<<(count + block - 1) / block, block>>>(table, decay, grad_table, count);
    int grid = (positions * dim + block - 1) / block;
    scatter_kernel<<<grid, block>>>(grad_out, tokens, grad_table, positions, dim);
}
