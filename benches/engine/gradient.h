// The gradient of the mean cross-entropy as a plain serial loop, for the benches that compare with it.
#pragma once

#include <cmath>
#include <cstddef>

__attribute__((noinline)) static void gradient(const float* logits, const int* targets, float* grad,
                                               int rows, int vocab, float scale) {
  for (int r = 0; r < rows; r++) {
    const float* row = logits + (size_t)r * vocab;
    float* grad_row = grad + (size_t)r * vocab;
    float max_logit = -INFINITY;
    for (int i = 0; i < vocab; i++) max_logit = fmaxf(max_logit, row[i]);
    float sum = 0.0f;
    for (int i = 0; i < vocab; i++) sum += expf(row[i] - max_logit);
    for (int i = 0; i < vocab; i++) {
      float probability = expf(row[i] - max_logit) / sum;
      float indicator = i == targets[r] ? 1.0f : 0.0f;
      grad_row[i] = (probability - indicator) * scale;
    }
  }
}
