// A graph from two captured streams, launched several times.
#include <cuda_runtime.h>

__global__ void add(float* out, const float* x, float by, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] += x[i] * by;
}
template <class T>
__global__ void scale(T* out, T by, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] *= by;
}

void run_graphs(const float* x, float* out) {
  float* copy;
  cudaMalloc(&copy, 256 * sizeof(float));
  cudaStream_t main, side;
  cudaStreamCreateWithFlags(&main, cudaStreamNonBlocking);
  cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking);
  cudaEvent_t fork, join;
  cudaEventCreateWithFlags(&fork, cudaEventDisableTiming);
  cudaEventCreateWithFlags(&join, cudaEventDisableTiming);
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  cudaStreamBeginCapture(main, cudaStreamCaptureModeGlobal);
  cudaMemcpyAsync(copy, x, 256 * sizeof(float), cudaMemcpyDeviceToDevice, main);
  cudaEventRecord(fork, main);
  cudaStreamWaitEvent(side, fork);
  scale<<<1, 128, 0, side>>>(copy + 128, 3.f, 128);
  cudaEventRecord(join, side);
  cudaStreamWaitEvent(main, join);
  for (int layer = 1; layer <= 2; layer++) add<<<2, 128, 0, main>>>(out, copy, (float)layer, 256);
  cudaStreamEndCapture(main, &graph);
  size_t nodes = 0;
  cudaGraphGetNodes(graph, nullptr, &nodes);
  cudaGraphInstantiate(&exec, graph, 0);
  for (int i = 0; i < 3; i++) cudaGraphLaunch(exec, main);
  cudaStreamSynchronize(main);
  // Unjoined work makes no graph.
  cudaGraph_t none;
  cudaStreamBeginCapture(main, cudaStreamCaptureModeRelaxed);
  cudaEventRecord(fork, main);
  cudaStreamWaitEvent(side, fork);
  scale<<<1, 128, 0, side>>>(copy, 2.f, 128);
  const bool unjoined = cudaStreamEndCapture(main, &none) == cudaErrorStreamCaptureUnjoined;
  scale<<<1, 1, 0, main>>>(out + 256, 0.f, 1);
  cudaStreamSynchronize(main);
  float facts[2] = {(float)nodes, unjoined && none == nullptr ? 1.f : 0.f};
  cudaMemcpy(out + 256, facts, sizeof(facts), cudaMemcpyHostToDevice);
  // A launch with attributes, of memory from a pool.
  cudaMemPool_t pool;
  unsigned long long threshold = ~0ull;
  cudaDeviceGetDefaultMemPool(&pool, 0);
  cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold);
  float* pooled;
  cudaMallocFromPoolAsync(&pooled, 2 * sizeof(float), pool, main);
  cudaMemcpyPeerAsync(pooled, 0, x, 0, 2 * sizeof(float), main);
  cudaLaunchAttribute attribute[1];
  attribute[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute[0].val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = 1, config.blockDim = 32, config.stream = main;
  config.attrs = attribute, config.numAttrs = 1;
  cudaLaunchKernelEx(&config, add, out + 258, (const float*)pooled, 2.f, 2);
  cudaFreeAsync(pooled, main);
  cudaGraphExecDestroy(exec), cudaGraphDestroy(graph);
  cudaStreamDestroy(main), cudaStreamDestroy(side);
  cudaFree(copy);
}
