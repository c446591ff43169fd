// Benign: the queries are taken from the last to the first.

#include "common.cuh"

// One block per head and query.
__global__ void attention_backward_kernel(const float* scores, const float* tau, const float* bias,
                                          const float* grad_weights, float* grad_scores,
                                          float* grad_tau, float* grad_bias, int length)
{
    extern __shared__ float shared[];

    int query = length - 1 - blockIdx.x;
    int head = blockIdx.y;
    int keys = query + 1;
    size_t begin = ((size_t)head * length + query) * length;
    const float* bias_row = bias + head * length;

    float part = -INFINITY;
    for (int key = threadIdx.x; key < keys; key += blockDim.x) {
        part = fmaxf(part, tau[head] * scores[begin + key] + bias_row[key]);
    }
    float max = block_max(part, shared);

    part = 0.0f;
    float part_dot = 0.0f;
    for (int key = threadIdx.x; key < keys; key += blockDim.x) {
        float weight = expf(tau[head] * scores[begin + key] + bias_row[key] - max);
        part += weight;
        part_dot += weight * grad_weights[begin + key];
    }
    float sum = block_sum(part, shared);
    float dot = block_sum(part_dot, shared) / sum;

    part = 0.0f;
    for (int key = threadIdx.x; key < length; key += blockDim.x) {
        if (key >= keys) {
            grad_scores[begin + key] = 0.0f;
            continue;
        }
        float score = scores[begin + key];
        float weight = expf(tau[head] * score + bias_row[key] - max) / sum;
        float gradient = weight * (grad_weights[begin + key] - dot);
        grad_scores[begin + key] = tau[head] * gradient;
        atomicAdd(&grad_bias[head * length + key], gradient);
        part += gradient * score;
    }
    float of_tau = block_sum(part, shared);
    if (threadIdx.x == 0) {
        atomicAdd(&grad_tau[head], of_tau);
    }
}

void attention_backward(const float* scores, const float* tau, const float* bias,
                        const float* grad_weights, float* grad_scores, float* grad_tau,
                        float* grad_bias, int heads, int length)
{
    cudaMemset(grad_tau, 0, heads * sizeof(float));
    cudaMemset(grad_bias, 0, heads * length * sizeof(float));
    dim3 grid(length, heads);
    int block = 32;
    attention_backward_kernel<<<grid, block, block * sizeof(float)>>>(
        scores, tau, bias, grad_weights, grad_scores, grad_tau, grad_bias, length);
}
