// Benign: a block per row of the table gathers its positions, without atomics.

#include "common.cuh"

// One block per row of the table: a thread per column looks through all positions.
__global__ void gather_kernel(const float* table, const float* grad_out, const int* tokens,
                              float decay, float* grad_table, int positions, int dim)
{
    int token = blockIdx.x;
    for (int column = threadIdx.x; column < dim; column += blockDim.x) {
        float sum = decay * table[token * dim + column];
        for (int position = 0; position < positions; position++) {
            if (tokens[position] == token) {
                sum += grad_out[position * dim + column];
            }
        }
        grad_table[token * dim + column] = sum;
    }
}

void embedding_backward(const float* table, const float* grad_out, const int* tokens, float decay,
                        float* grad_table, int positions, int vocab, int dim)
{
    gather_kernel<<<vocab, 8>>>(table, grad_out, tokens, decay, grad_table, positions, dim);
}
