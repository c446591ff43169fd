// Benign: neighbouring positions of the same token are added before they are scattered.

#include "common.cuh"

// One thread per element of the table.
__global__ void decay_kernel(const float* table, float decay, float* grad_table, int count)
{
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index < count) {
        grad_table[index] = decay * table[index];
    }
}

// One thread per column of two positions.
__global__ void scatter_kernel(const float* grad_out, const int* tokens, float* grad_table,
                               int positions, int dim)
{
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    int pair = index / dim;
    int column = index % dim;
    if (2 * pair >= positions) {
        return;
    }
    int token = tokens[2 * pair];
    float value = grad_out[2 * pair * dim + column];
    if (2 * pair + 1 < positions) {
        int next = tokens[2 * pair + 1];
        float other = grad_out[(2 * pair + 1) * dim + column];
        if (next == token) {
            value += other;
        } else if (next >= 0) {
            atomicAdd(&grad_table[next * dim + column], other);
        }
    }
    if (token >= 0) {
        atomicAdd(&grad_table[token * dim + column], value);
    }
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
