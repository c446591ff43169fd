// A policy's clipped loss: differences of two log-probabilities, and the gradient.

#include "sized.cuh"

constexpr int LOGIT = 1, SUM = 2, BOUND = 3, LOSS = 4, GRAD = 5;

template <class Logit>
static __device__ float log_probability(Change change, Row stats, Logit logit, int target)
{
    return way_of(change) == EXP_OF_LOG ? logit(target) - (stats.max + logf(stats.sum))
                                        : (logit(target) - stats.max) - logf(stats.sum);
}

// A thread per row.
template <class T>
__global__ void ratio_kernel(Change change, const float* logits, const float* old,
                             const int* targets, const float* advantages,
                             const float* grad_losses, T* differences, T* losses, T* grad_logits,
                             int rows, int cols)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) {
        return;
    }
    int begin = row * cols;
    auto logit = [=](int i) { return changed(change, LOGIT, row, i, logits[begin + i]); };
    auto before = [=](int i) { return old[begin + i]; };
    Row stats = statistics(change, cols, logit);
    stats.sum = changed(change, SUM, row, -1, stats.sum);
    Row stats_before = statistics(change, cols, before);
    float difference = log_probability(change, stats, logit, targets[row]) -
                       log_probability(change, stats_before, before, targets[row]);
    float ratio = expf(difference);
    float bound = changed(change, BOUND, -1, -1, 0.25f);
    float clipped = fminf(fmaxf(ratio, 1.0f - bound), 1.0f + bound);
    float plain = ratio * advantages[row], limited = clipped * advantages[row];
    differences[row] = T(difference);
    losses[row] = T(changed(change, LOSS, row, -1, -fminf(plain, limited)));
    float slope = plain <= limited ? -plain * grad_losses[row] : 0.0f;
    for (int i = 0; i < cols; i++) {
        float one = i == targets[row] ? 1.0f : 0.0f;
        float gradient = (one - probability(change, stats, logit(i))) * slope;
        grad_logits[begin + i] = T(changed(change, GRAD, row, i, gradient));
    }
}

template <class T>
void ratio(Change change, const float* logits, const float* old, const int* targets,
           const float* advantages, const float* grad_losses, T* differences, T* losses,
           T* grad_logits, int rows, int cols)
{
    ratio_kernel<T><<<(rows + 3) / 4, 4>>>(change, logits, old, targets, advantages, grad_losses,
                                           differences, losses, grad_logits, rows, cols);
}
