// The gradient of benches/engine.rs as a plain serial loop: what the engine is compared with.
// Usage: serial ROWS VOCAB REPETITIONS; prints the shortest wall and processor
// time in microseconds.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "clock.h"
#include "gradient.h"

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
