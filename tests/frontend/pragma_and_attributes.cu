#pragma once
__global__ void __launch_bounds__(128, 1) __attribute__((used)) k(int* __restrict__ p) {
#pragma unroll 4
  for (int i = 0; i < 4; ++i) { __shared__ __attribute__((aligned(16))) int s[4]; s[i] = p[i]; }
}
[[nodiscard]] inline int f() { return 1; }
void run(int* p) {
#pragma omp parallel for
  for (int i = 0; i < f(); ++i) k<<<1, 128>>>(p);
}
