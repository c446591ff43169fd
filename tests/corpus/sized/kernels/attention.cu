// Causal attention weights softmax(tau * scores), and the gradients of scores and tau.

#include "sized.cuh"

constexpr int TAU = 1, SCORE = 2, SUM = 3, DOT = 4, WEIGHT = 5, GRAD_SCORE = 6, GRAD_TAU = 7;

// A thread per head and query; a query sees the keys up to its own place.
template <class T>
__global__ void attention_kernel(Change change, const float* scores, const float* tau,
                                 const float* grad_weights, T* weights, T* grad_scores,
                                 float* parts, int heads, int length)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= heads * length) {
        return;
    }
    int begin = row * length, keys = row % length + 1;
    float scale = changed(change, TAU, row, -1, tau[row / length]);
    auto score = [=](int key) { return changed(change, SCORE, row, key, scores[begin + key]); };
    auto logit = [=](int key) { return scale * score(key); };
    Row stats = statistics(change, keys, logit);
    stats.sum = changed(change, SUM, row, -1, stats.sum);
    auto share = [=](int key) { return probability(change, stats, logit(key)); };
    float dot = total(change, keys, [=](int key) {
        return share(key) * grad_weights[begin + key];
    });
    dot = changed(change, DOT, row, -1, dot);
    auto gradient = [=](int key) { return share(key) * (grad_weights[begin + key] - dot); };
    for (int key = 0; key < length; key++) {
        bool seen = key < keys;
        weights[begin + key] = T(seen ? changed(change, WEIGHT, row, key, share(key)) : 0.0f);
        float value = seen ? changed(change, GRAD_SCORE, row, key, scale * gradient(key)) : 0.0f;
        grad_scores[begin + key] = T(value);
    }
    parts[row] = total(change, keys, [=](int key) {
        float p = gradient(key);
        return p == 0.0f ? 0.0f : p * score(key);
    });
}

// A thread per head.
template <class T>
__global__ void grad_tau_kernel(Change change, const float* parts, T* grad_tau, int heads,
                                int length)
{
    int head = blockIdx.x * blockDim.x + threadIdx.x;
    if (head >= heads) {
        return;
    }
    float sum = total(change, length, [=](int query) { return parts[head * length + query]; });
    grad_tau[head] = T(changed(change, GRAD_TAU, head, -1, sum));
}

template <class T>
void attention(Change change, const float* scores, const float* tau, const float* grad_weights,
               T* weights, T* grad_scores, T* grad_tau, int heads, int length)
{
    float* parts = NULL;
    cudaMalloc((void**)&parts, heads * length * sizeof(float));
    attention_kernel<T><<<(heads * length + 3) / 4, 4>>>(change, scores, tau, grad_weights, weights,
                                                         grad_scores, parts, heads, length);
    grad_tau_kernel<T><<<1, heads>>>(change, parts, grad_tau, heads, length);
    cudaFree(parts);
}
