#define SCRATCH(T, NAME, N) __shared__ T NAME[N]
#define TWO __shared__ float first; \
  __shared__ int second;
__global__ void kern(float* x) {
  SCRATCH(float, scratch, 32);
  TWO
  scratch[0] = first + second;
}
