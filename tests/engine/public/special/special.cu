// CUDA's mathematical functions that a C library lacks, in float, for 8 numbers each, and lengths of vectors.
#include <cuda_runtime.h>

__global__ void functions(float* y, const float* x, int n) {
  const int i = threadIdx.x;
  y[0 * n + i] = erfcxf(x[0 * n + i]);
  y[1 * n + i] = erfinvf(x[1 * n + i]);
  y[2 * n + i] = erfcinvf(x[2 * n + i]);
  y[3 * n + i] = normcdff(x[3 * n + i]);
  y[4 * n + i] = normcdfinvf(x[4 * n + i]);
  y[5 * n + i] = cyl_bessel_i0f(x[5 * n + i]);
  y[6 * n + i] = cyl_bessel_i1f(x[6 * n + i]);
  const float* v = x + 7 * n;
  const float a = v[i], b = v[(i + 1) % n], c = v[(i + 2) % n], d = v[(i + 3) % n];
  y[7 * n + i] = norm3df(a, b, c) + norm4d(a, b, c, d) + normf(i, v);
  y[8 * n + i] = rnorm3d(a, b, c) + rnorm4df(a, b, c, d) + rnormf(i + 1, v);
  y[9 * n + i] = rhypotf(a, b) + rhypot(c, d);
}

void run(float* y, const float* x, int n) { functions<<<1, n>>>(y, x, n); }
