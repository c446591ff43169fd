// Cross-entropy of every row, and its gradient; targets of -1 are padding.

#include "sized.cuh"

constexpr int LOGIT = 1, SUM = 2, LOSS = 3, TARGET = 4, SCALE = 5, GRAD = 6;

// A thread per row.
template <class T>
__global__ void lm_loss_kernel(Change change, const float* logits, const int* targets,
                               const float* grad_losses, T* losses, T* grad_logits, int rows,
                               int cols)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) {
        return;
    }
    int begin = row * cols;
    int target = targets[row];
    int count = 0;
    for (int i = 0; i < rows; i++) {
        count += targets[i] >= 0;
    }
    if (target < 0) {
        losses[row] = T(0.0f);
        for (int i = 0; i < cols; i++) {
            grad_logits[begin + i] = T(0.0f);
        }
        return;
    }
    float scale = changed(change, SCALE, -1, -1, 1.0f / count);
    auto logit = [=](int i) { return changed(change, LOGIT, row, i, logits[begin + i]); };
    Row stats = statistics(change, cols, logit);
    stats.sum = changed(change, SUM, row, -1, stats.sum);
    float loss = way_of(change) == EXP_OF_LOG
                     ? (logf(stats.sum) + stats.max) - logit(target)
                     : logf(stats.sum) + (stats.max - logit(target));
    losses[row] = T(changed(change, LOSS, row, -1, loss * scale));
    float upstream = grad_losses[row] * scale;
    for (int i = 0; i < cols; i++) {
        float one = i == target ? changed(change, TARGET, row, -1, 1.0f) : 0.0f;
        float gradient = (probability(change, stats, logit(i)) - one) * upstream;
        grad_logits[begin + i] = T(changed(change, GRAD, row, i, gradient));
    }
}

template <class T>
void lm_loss(Change change, const float* logits, const int* targets, const float* grad_losses,
             T* losses, T* grad_logits, int rows, int cols)
{
    lm_loss_kernel<T><<<(rows + 3) / 4, 4>>>(change, logits, targets, grad_losses, losses,
                                             grad_logits, rows, cols);
}
