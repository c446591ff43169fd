// The gradient of benches/engine.rs as a plain serial loop: what the engine is compared with.
// Usage: serial ROWS VOCAB REPETITIONS; prints the shortest wall and processor
// time in microseconds.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "clock.h"

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

int main(int, char** arguments) {
  int rows = atoi(arguments[1]), vocab = atoi(arguments[2]), repetitions = atoi(arguments[3]);
  std::vector<float> logits((size_t)rows * vocab), grad(logits.size());
  std::vector<int> targets(rows);
  for (size_t i = 0; i < logits.size(); i++) logits[i] = (float)((unsigned)i * 2654435761u % 4096) / 256 - 8;
  for (int r = 0; r < rows; r++) targets[r] = r % vocab;
  double cpu_us;
  double best = best_us(repetitions, cpu_us, [&] {
    gradient(logits.data(), targets.data(), grad.data(), rows, vocab, 1.0f / rows);
  });
  printf("%.3f %.3f\n", best, cpu_us);
  return grad[grad.size() / 2] > 1.0f;
}
