#ifndef HEADER_CUH
#define HEADER_CUH
#ifdef __cplusplus
extern "C" {
#endif
void launch(float* x, int n);
#ifdef __cplusplus
}
#endif
template <typename T>
__device__ __host__ inline T square(T x) { return x * x; }
__global__ void kern(float* x);
#endif
