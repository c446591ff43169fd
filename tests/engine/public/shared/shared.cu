// Rows in shared memory: as much as a block has, counted in bytes of the source's types.
#include <cuda_bf16.h>
#include <stdlib.h>

typedef __nv_bfloat16 narrow;

__global__ void tile(float* out, const float* in, int n) {
  __shared__ float rows[2][5120];
  for (int i = threadIdx.x; i < n; i += blockDim.x) rows[i % 2][i] = in[i];
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = rows[(n - 1 - i) % 2][n - 1 - i];
}

__global__ void row(float* out, const float* in, int n) {
  extern __shared__ narrow values[];
  for (int i = threadIdx.x; i < n; i += blockDim.x) values[i] = (narrow)in[i];
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) out[n + i] = 2 * (float)values[n - 1 - i];
}

void reverse(float* out, const float* in, int n) {
  tile<<<1, 32>>>(out, in, n);
  size_t bytes = 40000 * sizeof(narrow);
  int most = 0;
  cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0);
  cudaDeviceProp device;
  cudaGetDeviceProperties(&device, 0);
  if ((int)bytes > most || bytes > device.sharedMemPerBlockOptin) exit(1);
  if (cudaFuncSetAttribute(row, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes)) exit(2);
  row<<<1, 32, bytes>>>(out, in, n);
}
