// Defect: the first block sets the table's gradient while the others may already add to it.

#include "common.cuh"

// One thread per element of grad_out.
__global__ void scatter_kernel(const float* table, float decay, const float* grad_out,
                               const int* tokens, float* grad_table, int positions, int dim,
                               int count)
{
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (blockIdx.x == 0) {
        for (int element = threadIdx.x; element < count; element += blockDim.x) {
            grad_table[element] = decay * table[element];
        }
        __syncthreads();
    }
    if (index >= positions * dim) {
        return;
    }
    int token = tokens[index / dim];
    if (token < 0) {
        return;
    }
    atomicAdd(&grad_table[token * dim + index % dim], grad_out[index]);
}

void embedding_backward(const float* table, const float* grad_out, const int* tokens, float decay,
                        float* grad_table, int positions, int vocab, int dim)
{
    int block = 64;
    int count = vocab * dim;
    int grid = (positions * dim + block - 1) / block;
    scatter_kernel<<<grid, block>>>(table, decay, grad_out, tokens, grad_table, positions, dim,
                                    count);
}
