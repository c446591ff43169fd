// A step in place, with a workspace of the caller's.
#ifdef __CUDACC__
#error "compiled as CUDA"
#endif
__global__ void step(float* params, float* sums, const float* grads, float* scratch, int n) {
  int i = threadIdx.x;
  if (i < n) {
    scratch[i] = grads[i];
    sums[2 * i] += scratch[i];
    params[i] += STEP;
  }
}
void update(float* params, float* sums, float& count, const float* grads, float* scratch, int n) {
  step<<<1, 64>>>(params, sums, grads, scratch, n);
  count += n;
}
