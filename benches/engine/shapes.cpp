// The mathematics of shapes.cu as plain serial loops: what the engine is compared with.
// Usage: shapes SHAPE ROWS COLUMNS REPETITIONS; prints the shortest wall and processor time in
// microseconds, and the sum of the magnitudes of all results.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "clock.h"
#include "gradient.h"

#define LOOP __attribute__((noinline)) static void

LOOP column_sums(float* out, const float* in, int rows, int columns) {
  for (int i = 0; i < columns; i++) out[i] = 0.0f;
  for (int r = 0; r < rows; r++)
    for (int i = 0; i < columns; i++) out[i] += in[(size_t)r * columns + i];
}

LOOP squared_norm(float* out, const float* in, size_t count) {
  float sum = 0.0f;
  for (size_t i = 0; i < count; i++) sum += in[i] * in[i];
  *out = sum;
}

LOOP layer_norm(float* out, const float* in, int rows, int columns) {
  for (int r = 0; r < rows; r++) {
    const float* x = in + (size_t)r * columns;
    float sum = 0.0f;
    for (int i = 0; i < columns; i++) sum += x[i];
    float mean = sum / columns;
    sum = 0.0f;
    for (int i = 0; i < columns; i++) sum += (x[i] - mean) * (x[i] - mean);
    float scale = 1.0f / sqrtf(sum / columns + 1e-5f);
    for (int i = 0; i < columns; i++) out[(size_t)r * columns + i] = (x[i] - mean) * scale;
  }
}

LOOP residual_norm(float* out, const float* one, const float* other, int rows, int columns) {
  std::vector<float> sums((size_t)rows * columns);
  for (size_t i = 0; i < sums.size(); i++) sums[i] = one[i] + other[i];
  layer_norm(out, sums.data(), rows, columns);
}

LOOP softmax(float* out, const float* in, int rows, int columns) {
  for (int r = 0; r < rows; r++) {
    const float* x = in + (size_t)r * columns;
    float top = -INFINITY, sum = 0.0f;
    for (int i = 0; i < columns; i++) top = fmaxf(top, x[i]);
    for (int i = 0; i < columns; i++) sum += expf(x[i] - top);
    for (int i = 0; i < columns; i++) out[(size_t)r * columns + i] = expf(x[i] - top) / sum;
  }
}

/// The numbers are those of `run_shape` in shapes.cu.
static void run_shape(int shape, float* out, const float* in, const int* targets, int rows, int columns) {
  switch (shape) {
    case 0: return column_sums(out, in, rows, columns);
    case 1: return squared_norm(out, in, (size_t)rows * columns);
    case 2: return layer_norm(out, in, rows, columns);
    case 3: return residual_norm(out, in, in, rows, columns);
    case 4: return gradient(in, targets, out, rows, columns, 1.0f / rows);
    default: return softmax(out, in, rows, columns);
  }
}

int main(int, char** arguments) {
  int shape = atoi(arguments[1]), rows = atoi(arguments[2]), columns = atoi(arguments[3]);
  int repetitions = atoi(arguments[4]);
  std::vector<float> in((size_t)rows * columns), out(in.size());
  std::vector<int> targets(rows);
  for (size_t i = 0; i < in.size(); i++) in[i] = (float)((unsigned)i * 2654435761u % 4096) / 256 - 8;
  for (int r = 0; r < rows; r++) targets[r] = r % columns;
  double cpu_us;
  double best = best_us(repetitions, cpu_us, [&] {
    run_shape(shape, out.data(), in.data(), targets.data(), rows, columns);
  });
  double magnitude = 0.0;
  for (float x : out) magnitude += fabs(x);
  printf("%.3f %.3f %.9g\n", best, cpu_us, magnitude);
}
