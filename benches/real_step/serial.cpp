// The loss and the gradient of a step as plain serial loops in float32: what `replay` is compared with.
// Usage: serial INPUTS POSITIONS VOCAB REPETITIONS; INPUTS is the fixture's safetensors file, which begins
// with the logits. Prints the shortest wall and processor time in seconds.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "../engine/clock.h"
#include "../engine/gradient.h"

__attribute__((noinline)) static float loss(const float* logits, const int* targets, int positions,
                                            int vocab) {
  double total = 0.0;
  for (int p = 0; p < positions; p++) {
    const float* row = logits + (size_t)p * vocab;
    float max_logit = -INFINITY;
    for (int i = 0; i < vocab; i++) max_logit = fmaxf(max_logit, row[i]);
    float sum = 0.0f;
    for (int i = 0; i < vocab; i++) sum += expf(row[i] - max_logit);
    total += max_logit + logf(sum) - row[targets[p]];
  }
  return (float)(total / positions);
}

int main(int, char** arguments) {
  int positions = atoi(arguments[2]), vocab = atoi(arguments[3]), repetitions = atoi(arguments[4]);
  std::vector<float> logits((size_t)positions * vocab), grad(logits.size());
  std::vector<int> targets(positions);
  FILE* file = fopen(arguments[1], "rb");
  uint64_t header = 0;
  if (!file || fread(&header, 8, 1, file) != 1 || fseek(file, (long)header, SEEK_CUR) != 0 ||
      fread(logits.data(), 4, logits.size(), file) != logits.size() ||
      fread(targets.data(), 4, targets.size(), file) != targets.size()) {
    fprintf(stderr, "%s cannot be read\n", arguments[1]);
    return 1;
  }
  float sum = 0.0f;
  double cpu_us;
  double best = best_us(repetitions, cpu_us, [&] {
    sum += loss(logits.data(), targets.data(), positions, vocab);
    gradient(logits.data(), targets.data(), grad.data(), positions, vocab, 1.0f / positions);
    sum += grad[grad.size() / 2];
  });
  printf("%.6f %.6f\n", best / 1e6, cpu_us / 1e6);
  return sum == 0.0f;
}
