// Cross-entropy of a linear layer's outputs over a temperature of 0.7, and its gradients.

#include "sized.cuh"

constexpr int TEMPERATURE = 1, SUM = 2, TARGET = 3, GRAD_HIDDEN = 4, GRAD_WEIGHT = 5, LOSS = 6;

// A thread per row: the loss, and the gradient of the logits.
template <class T>
__global__ void logits_kernel(Change change, const float* hidden, const float* weight,
                              const int* targets, const float* grad_losses, T* losses,
                              float* grad_logits, int rows, int dim, int vocab)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) {
        return;
    }
    float temperature = changed(change, TEMPERATURE, -1, -1, 0.7f);
    float* logits = grad_logits + row * vocab;
    for (int item = 0; item < vocab; item++) {
        float sum = total(change, dim, [=](int k) {
            return hidden[row * dim + k] * weight[item * dim + k];
        });
        logits[item] = sum / temperature;
    }
    Row stats = statistics(change, vocab, [=](int i) { return logits[i]; });
    stats.sum = changed(change, SUM, row, -1, stats.sum);
    float loss = logf(stats.sum) + (stats.max - logits[targets[row]]);
    losses[row] = T(changed(change, LOSS, row, -1, loss));
    for (int item = 0; item < vocab; item++) {
        float one = item == targets[row] ? changed(change, TARGET, row, -1, 1.0f) : 0.0f;
        float p = probability(change, stats, logits[item]);
        logits[item] = (p - one) * (grad_losses[row] / temperature);
    }
}

// A thread per element of the gradient of hidden.
template <class T>
__global__ void grad_hidden_kernel(Change change, const float* grad_logits, const float* weight,
                                   T* grad_hidden, int rows, int dim, int vocab)
{
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= rows * dim) {
        return;
    }
    int row = index / dim, k = index % dim;
    float sum = total(change, vocab, [=](int item) {
        return grad_logits[row * vocab + item] * weight[item * dim + k];
    });
    grad_hidden[index] = T(changed(change, GRAD_HIDDEN, row, k, sum));
}

// A thread per element of the gradient of weight.
template <class T>
__global__ void grad_weight_kernel(Change change, const float* grad_logits, const float* hidden,
                                   T* grad_weight, int rows, int dim, int vocab)
{
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= vocab * dim) {
        return;
    }
    int item = index / dim, k = index % dim;
    float sum = total(change, rows, [=](int row) {
        return grad_logits[row * vocab + item] * hidden[row * dim + k];
    });
    grad_weight[index] = T(changed(change, GRAD_WEIGHT, item, k, sum));
}

template <class T>
void linear_loss(Change change, const float* hidden, const float* weight, const int* targets,
                 const float* grad_losses, T* losses, T* grad_hidden, T* grad_weight, int rows,
                 int dim, int vocab)
{
    float* grad_logits = NULL;
    cudaMalloc((void**)&grad_logits, rows * vocab * sizeof(float));
    logits_kernel<T><<<(rows + 3) / 4, 4>>>(change, hidden, weight, targets, grad_losses, losses,
                                            grad_logits, rows, dim, vocab);
    grad_hidden_kernel<T><<<(rows * dim + 31) / 32, 32>>>(change, grad_logits, weight, grad_hidden,
                                                          rows, dim, vocab);
    grad_weight_kernel<T><<<(vocab * dim + 31) / 32, 32>>>(change, grad_logits, hidden, grad_weight,
                                                           rows, dim, vocab);
    cudaFree(grad_logits);
}
