// The runtime API as host code around kernels uses it. Each value of `out` is a count or an answer.
#include <cuda_runtime.h>
#include <stdio.h>
#define cudaCheck(err) { if ((err) != cudaSuccess) { printf("%s:%d\n", __FILE__, __LINE__); exit(1); } }
__global__ void add(float* x, int n, float value) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] += value;
}
template <int Factor>
__global__ void scale(float* x, int n) {
  if (threadIdx.x < n) x[threadIdx.x] *= Factor;
}
static const void* const kernels[] = {(const void*)add, reinterpret_cast<const void*>(&scale<2>)};
static void count(void* data) { *(int*)data += 1; }
void run(const float* in, float* out, int n) {
  float host[8] = {0};
  // two dimensions
  float* rows;
  size_t pitch;
  cudaCheck(cudaMallocPitch(&rows, &pitch, 2 * sizeof(float), 4));
  cudaCheck(cudaMemset2D(rows, pitch, 0, 2 * sizeof(float), 4));
  cudaCheck(cudaMemcpy2D(rows, pitch, in, 2 * sizeof(float), 2 * sizeof(float), 3, cudaMemcpyDeviceToDevice));
  cudaCheck(cudaMemcpy2D(out, 2 * sizeof(float), rows, pitch, 2 * sizeof(float), 4, cudaMemcpyDefault));
  // managed memory
  float* managed;
  cudaCheck(cudaMallocManaged(&managed, 4 * sizeof(float)));
  cudaCheck(cudaMemAdvise(managed, 4 * sizeof(float), cudaMemAdviseSetReadMostly, 0));
  cudaCheck(cudaMemPrefetchAsync(managed, 4 * sizeof(float), 0));
  for (int i = 0; i < 4; i++) managed[i] = i;
  add<<<1, 32>>>(managed, 4, 10.0f);
  cudaCheck(cudaDeviceSynchronize());
  host[0] = managed[3];
  // events, streams, host functions
  cudaStream_t stream;
  cudaEvent_t start, stop;
  int least, greatest, counted = 0;
  cudaCheck(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  cudaCheck(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest));
  cudaCheck(cudaEventCreate(&start));
  cudaCheck(cudaEventCreateWithFlags(&stop, cudaEventBlockingSync));
  cudaCheck(cudaEventRecord(start, stream));
  add<<<1, 32, 0, stream>>>(managed, 4, 1.0f);
  add<<<1, 32, 0, stream>>>(managed, 4, 1.0f);
  cudaCheck(cudaEventRecord(stop, stream));
  cudaCheck(cudaEventSynchronize(stop));
  float milliseconds = 0;
  cudaCheck(cudaEventElapsedTime(&milliseconds, start, stop));
  host[1] = milliseconds;
  cudaCheck(cudaLaunchHostFunc(stream, count, &counted));
  host[2] = counted;
  // occupancy and properties
  int blocks, grid, block;
  cudaDeviceProp prop;
  cudaCheck(cudaGetDeviceProperties(&prop, 0));
  cudaCheck(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, add, 256, 0));
  cudaCheck(cudaOccupancyMaxPotentialBlockSize(&grid, &block, add, 0, 0));
  host[3] = blocks * prop.multiProcessorCount;
  host[4] = block;
  // pinned memory and a launch by pointers
  float* pinned;
  cudaCheck(cudaHostAlloc(&pinned, 4 * sizeof(float), cudaHostAllocDefault));
  int four = 4;
  float value = 0.5f;
  void* arguments[] = {&managed, &four, &value};
  cudaCheck(cudaLaunchKernel(add, dim3(1), dim3(32), arguments, 0, stream));
  // by pointers to void, whose kernels a table tells
  cudaCheck(cudaLaunchCooperativeKernel(kernels[0], dim3(1), dim3(32), arguments, 0, stream));
  cudaCheck(cudaLaunchKernel(kernels[1], dim3(1), dim3(32), arguments, 0, stream));
  cudaCheck(cudaMemcpyAsync(pinned, managed, 4 * sizeof(float), cudaMemcpyDeviceToHost, stream));
  cudaCheck(cudaStreamSynchronize(stream));
  host[5] = pinned[0];
  cudaCheck(cudaMemcpy(out + 8, host, 6 * sizeof(float), cudaMemcpyHostToDevice));
  cudaCheck(cudaFreeHost(pinned));
  cudaCheck(cudaFree(managed));
  cudaCheck(cudaFree(rows));
  cudaCheck(cudaStreamDestroy(stream));
}
void launch_unknown(const float* in, float* out, int n) {
  void* arguments[] = {&out, &n};
  const void* unknown = in;
  cudaLaunchKernel(unknown, dim3(1), dim3(32), arguments);
}
