// Kernels whose values are compared with what CUDA's documents promise. Each `case_NAME` is one
// replay; `out` and `real` have 4096 elements, which a case may leave unwritten.
#include <cuda_runtime.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Thread and block indices.

__global__ void indices_kernel(long long* out) {
  int thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  int block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  int threads = blockDim.x * blockDim.y * blockDim.z;
  long long seen = 0;
  unsigned parts[] = {blockIdx.z, blockIdx.y, blockIdx.x, threadIdx.z, threadIdx.y, threadIdx.x};
  for (unsigned part : parts) seen = seen * 10 + part;
  out[block * threads + thread] = seen;
}
static void case_indices(long long* out, float*) {
  indices_kernel<<<dim3(3, 2, 4), dim3(5, 3, 2)>>>(out);
}

// Barriers.

__global__ void predicates_kernel(long long* out) {
  int t = threadIdx.x;
  int count = __syncthreads_count(t % 3 == 0);
  int all = __syncthreads_and(t < 100), not_all = __syncthreads_and(t != 7);
  int any = __syncthreads_or(t == 99), none = __syncthreads_or(t > 99);
  out[t] = count * 10000 + all * 1000 + not_all * 100 + any * 10 + none;
}
static void case_barrier_predicates(long long* out, float*) { predicates_kernel<<<1, 100>>>(out); }

__global__ void early_return_kernel(long long* out) {
  __shared__ int box[96];
  int t = threadIdx.x;
  if (t % 3 == 0) return;
  box[t] = t;
  __syncthreads();
  if (t % 3 == 1) out[t] = box[t + 1];
  int count = __syncthreads_count(1);
  if (t % 3 == 2) out[t] = count;
}
static void case_early_return(long long* out, float*) { early_return_kernel<<<1, 96>>>(out); }

// A tree reduction for any block, as loss kernels have it.
__global__ void reduce_kernel(long long* out) {
  extern __shared__ long long sums[];
  int t = threadIdx.x;
  sums[t] = t + 1;
  __syncthreads();
  for (int width = blockDim.x; width > 1;) {
    int half = (width + 1) / 2;
    if (t + half < width) sums[t] += sums[t + half];
    __syncthreads();
    width = half;
  }
  if (t == 0) out[blockIdx.x] = sums[0];
}
static void case_reductions(long long* out, float*) {
  int blocks[] = {1, 2, 31, 32, 33, 63, 64, 65, 127, 257, 1000, 1023, 1024};
  for (int block : blocks) reduce_kernel<<<1, block, block * sizeof(long long)>>>(out++);
}

// Warps.

__global__ void shuffle_kernel(long long* out, int width) {
  int t = threadIdx.x;
  unsigned mask = __activemask();
  out[4 * t] = __shfl_sync(mask, t, 3, width);
  out[4 * t + 1] = __shfl_up_sync(mask, (long long)t, 2, width);
  out[4 * t + 2] = (long long)__shfl_down_sync(mask, (float)t, 1, width);
  out[4 * t + 3] = (long long)__shfl_xor_sync(mask, (double)t, 5, width);
}
static void case_shuffles(long long* out, float*) {
  for (int width = 2; width <= 32; width *= 2, out += 4 * 80) shuffle_kernel<<<1, 80>>>(out, width);
}

__global__ void partial_warp_kernel(long long* out) {
  int t = threadIdx.x;
  unsigned all = __ballot_sync(0xffffffffu, 1);
  int from_first = __shfl_sync(0xffffffffu, t * 10, 0);
  out[t] = (long long)all * 1000 + from_first;
}
static void case_partial_warp(long long* out, float*) { partial_warp_kernel<<<1, 45>>>(out); }

__global__ void masks_kernel(long long* out) {
  unsigned lane = threadIdx.x % 32;
  for (int seed = 0; seed < 16; seed++) {
    unsigned mask = 0x9e3779b9u * (seed + 1);
    if (mask >> lane & 1) {
      unsigned ballot = __ballot_sync(mask, lane % 3 == 0);
      int any = __any_sync(mask, lane == 5), all = __all_sync(mask, lane < 40);
      unsigned same = __match_any_sync(mask, lane % 4);
      int equal;
      unsigned full = __match_all_sync(mask, 7, &equal);
      unsigned sum = __reduce_add_sync(mask, lane), low = __reduce_min_sync(mask, lane + 1);
      int least = __reduce_min_sync(mask, 3 - (int)lane), most = __reduce_max_sync(mask, -(int)lane);
      unsigned bits = __reduce_or_sync(mask, 1u << lane), odd = __reduce_xor_sync(mask, lane);
      unsigned both = __reduce_and_sync(mask, lane | 64);
      long long hash = 0;
      unsigned parts[] = {ballot, (unsigned)any, (unsigned)all, same, full, (unsigned)equal, sum,
                          low, (unsigned)least, (unsigned)most, bits, odd, both};
      for (unsigned part : parts) hash = (hash * 1000003 + part) % 1000000007;
      out[seed * 32 + lane] = hash;
    } else {
      out[seed * 32 + lane] = -1;
    }
  }
}
static void case_masks(long long* out, float*) { masks_kernel<<<1, 32>>>(out); }

// Two halves of a warp in different branches, each with collectives of its own.
__global__ void branches_kernel(long long* out) {
  unsigned lane = threadIdx.x;
  long long value = 0;
  if (lane < 16) {
    for (int i = 0; i < 3; i++) value += __shfl_xor_sync(0x0000ffffu, (int)lane, 1 << i);
  } else {
    value = __reduce_add_sync(0xffff0000u, 1u);
  }
  __syncwarp();
  out[lane] = value;
}
static void case_branches(long long* out, float*) { branches_kernel<<<1, 32>>>(out); }

// Lanes leave while two groups wait; each departure completes another group.
__global__ void leavers_kernel(long long* out) {
  unsigned lane = threadIdx.x;
  if (lane == 30 || lane == 31) return;
  unsigned mine = lane < 15 ? 0x40007fffu : 0x80000000u | 0x3fff8000u;
  out[lane] = __ballot_sync(mine, 1);
}
static void case_leavers(long long* out, float*) { leavers_kernel<<<1, 32>>>(out); }

// Atomics.

__global__ void atomics_kernel(int* i, unsigned* u, unsigned long long* l, double* d, float* f) {
  int g = blockIdx.x * blockDim.x + threadIdx.x;
  atomicAdd(i, g);
  atomicSub(i + 1, 3);
  atomicMax(i + 2, g);
  atomicMin(i + 3, -g);
  atomicInc(u, 6);
  atomicDec(u + 1, 6);
  atomicOr(u + 2, 1u << (g % 32));
  atomicAnd(u + 3, ~(1u << (g % 8)));
  atomicXor(u + 4, 1u << (g % 16));
  atomicAdd(l, 1ull << 33);
  atomicMax(l + 1, (unsigned long long)g << 40);
  atomicAdd(d, 0.5);
  atomicAdd(f, 1.0f);
  int seen = i[4], old;
  do {
    old = seen;
    seen = atomicCAS(i + 4, old, old + 2);
  } while (seen != old);
}
static void case_atomics(long long* out, float*) {
  char *block, copy[256];
  cudaMalloc(&block, 256);
  cudaMemset(block, 0, 256);
  unsigned ones = 0xffffffffu;
  cudaMemcpy(block + 64 + 12, &ones, 4, cudaMemcpyHostToDevice);
  atomics_kernel<<<20, 100>>>((int*)block, (unsigned*)(block + 64),
                              (unsigned long long*)(block + 128), (double*)(block + 192),
                              (float*)(block + 224));
  cudaMemcpy(copy, block, 256, cudaMemcpyDeviceToHost);
  cudaFree(block);
  long long results[14] = {};
  for (int k = 0; k < 5; k++) results[k] = ((int*)copy)[k];
  for (int k = 0; k < 5; k++) results[5 + k] = ((unsigned*)(copy + 64))[k];
  for (int k = 0; k < 2; k++) results[10 + k] = ((unsigned long long*)(copy + 128))[k];
  results[12] = (long long)*(double*)(copy + 192);
  results[13] = (long long)*(float*)(copy + 224);
  cudaMemcpy(out, results, sizeof results, cudaMemcpyHostToDevice);
}

// Terms so different that every order of additions gives another sum.
__device__ float term(unsigned n) {
  n = (n ^ 61u) ^ (n >> 16);
  n *= 9u;
  n ^= n >> 4;
  n *= 0x27d4eb2du;
  n ^= n >> 15;
  float sign = n & 1 ? -1.0f : 1.0f;
  return sign * (1.0f + (n >> 9)) * (n & 2 ? 1e-6f : 1.0f);
}
__global__ void float_atomics_kernel(float* real) {
  unsigned g = blockIdx.x * blockDim.x + threadIdx.x;
  atomicAdd(real + g % 4, term(g));
}
__device__ unsigned arrived;
__global__ void last_block_kernel(float* partial, float* result, long long* out) {
  __shared__ float sum;
  __shared__ bool is_last;
  if (threadIdx.x == 0) sum = 0.0f;
  __syncthreads();
  atomicAdd(&sum, term(blockIdx.x * 1000 + threadIdx.x));
  __syncthreads();
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = sum;
    __threadfence();
    is_last = atomicInc(&arrived, gridDim.x - 1) == gridDim.x - 1;
    if (is_last) out[0] = blockIdx.x;
  }
  __syncthreads();
  if (is_last && threadIdx.x == 0) {
    float total = 0.0f;
    for (unsigned b = 0; b < gridDim.x; b++) total += partial[b];
    *result = total;
  }
}
static void case_float_atomics(long long* out, float* real) {
  cudaMemset(real, 0, 4 * sizeof(float));
  float_atomics_kernel<<<300, 64>>>(real);
  float* partial;
  cudaMalloc(&partial, 300 * sizeof(float));
  last_block_kernel<<<300, 96>>>(partial, real + 4, out);
  cudaFree(partial);
}

// Threads of one block that wait for each other through memory.

__global__ void lock_kernel(long long* out) {
  __shared__ int lock, total;
  if (threadIdx.x == 0) lock = total = 0;
  __syncthreads();
  for (bool done = false; !done;) {
    if (atomicCAS(&lock, 0, 1) == 0) {
      int before = total;
      __syncwarp(1u << (threadIdx.x % 32));
      __threadfence_block();
      total = before + 1;
      atomicExch(&lock, 0);
      done = true;
    }
  }
  __syncthreads();
  out[threadIdx.x] = total;
}
__global__ void flag_kernel(long long* out) {
  __shared__ int flag;
  if (threadIdx.x == 0) flag = 0;
  __syncthreads();
  if (threadIdx.x == 0) {
    while (atomicAdd(&flag, 0) == 0) {}
    out[0] = flag;
  } else if (threadIdx.x == 63) {
    volatile int* seen = &flag;
    *seen = 41;
    __threadfence();
  } else if (threadIdx.x == 1) {
    while (*(volatile int*)&flag == 0) __nanosleep(100);
    out[1] = flag + 1;
  } else if (threadIdx.x == 2) {
    while (*(volatile int*)&flag == 0) __threadfence();
    out[2] = flag + 2;
  }
}
static void case_spin_waits(long long* out, float*) {
  lock_kernel<<<4, 100>>>(out);
  flag_kernel<<<1, 64>>>(out + 100);
}

// Shared memory.

template <int N, class T>
__global__ void templated_kernel(long long* out) {
  __shared__ T box[N];
  for (int i = threadIdx.x; i < N; i += blockDim.x) box[i] = (T)(i + N);
  __syncthreads();
  if (threadIdx.x == 0) *out = (long long)box[N - 1] * 1000 + sizeof(box);
}
__device__ int* counter_of_block() {
  __shared__ int counter;
  return &counter;
}
__device__ void bump() { atomicAdd(counter_of_block(), 1); }
__global__ void shared_in_function_kernel(long long* out) {
  if (threadIdx.x == 0) *counter_of_block() = blockIdx.x;
  __syncthreads();
  bump();
  __syncthreads();
  if (threadIdx.x == 0) out[blockIdx.x] = *counter_of_block();
}
__global__ void both_kernel(long long* out, int n) {
  extern __shared__ int dynamic[];
  __shared__ int fixed[32];
  __shared__ double2 aligned;
  fixed[threadIdx.x] = threadIdx.x;
  for (int i = threadIdx.x; i < n; i += 32) dynamic[i] = i;
  aligned.x = 1;
  __syncthreads();
  if (threadIdx.x == 0) *out = fixed[31] + dynamic[n - 1] + (size_t)&aligned % 16;
}
static void case_shared_memory(long long* out, float*) {
  templated_kernel<8, int><<<1, 4>>>(out);
  templated_kernel<100, double><<<1, 32>>>(out + 1);
  templated_kernel<8, double><<<1, 4>>>(out + 2);
  shared_in_function_kernel<<<4, 50>>>(out + 3);
  both_kernel<<<1, 32, 1000 * sizeof(int)>>>(out + 7, 1000);
  cudaFuncSetAttribute(both_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 100 * 1024);
  both_kernel<<<1, 32, 100 * 1024>>>(out + 8, 25 * 1024);
}

// Launches.

__global__ void mark_kernel(long long* out) { *out = 1; }
static void case_launch_limits(long long* out, float*) {
  long long codes[32], *code = codes, zero = 0;
  cudaMemcpy(out + 100, &zero, 8, cudaMemcpyHostToDevice);
  auto check = [&](dim3 grid, dim3 block, size_t shared) {
    mark_kernel<<<grid, block, shared>>>(out + 100);
    *code++ = cudaPeekAtLastError();
    cudaGetLastError();
    *code++ = cudaGetLastError();
  };
  check(1, 1025, 0);
  check(1, 0, 0);
  check(0, 1, 0);
  check(1, dim3(1, 1, 65), 0);
  check(1, dim3(1, 1025, 1), 0);
  check(1, dim3(32, 33, 1), 0);
  check(dim3(1, 65536), 1, 0);
  check(dim3(1, 1, 65536), 1, 0);
  check(1, 1, 49 * 1024);
  long long mark;
  cudaMemcpy(&mark, out + 100, 8, cudaMemcpyDeviceToHost);
  *code++ = mark;
  check(dim3(1, 65535), 1, 0);
  check(1, dim3(1, 16, 64), 0);
  check(1, 1024, 48 * 1024);
  cudaMemcpy(&mark, out + 100, 8, cudaMemcpyDeviceToHost);
  *code++ = mark;
  cudaMemcpy(out, codes, (char*)code - (char*)codes, cudaMemcpyHostToDevice);
}

__global__ void add_kernel(long long* out, long long value) { *out += value; }
__global__ void double_kernel(long long* out, long long value) { *out *= value; }
static void case_function_pointers(long long* out, float*) {
  cudaMemset(out, 0, 8);
  void (*kernels[])(long long*, long long) = {add_kernel, double_kernel};
  for (int i = 0; i < 6; i++) kernels[i % 2]<<<1, 1>>>(out, i + 1);
  cudaStream_t stream;
  cudaStreamCreate(&stream);
  add_kernel<<<1, 1, 0, stream>>>(out, 1);
  add_kernel<<<1, 1, 0, 0>>>(out, 1);
  cudaStreamDestroy(stream);
}

static void case_many_launches(long long* out, float*) {
  cudaMemset(out, 0, 8);
  for (int i = 0; i < 100000; i++) add_kernel<<<1, 1>>>(out, 1);
}

__global__ void last_of_many_kernel(long long* out) {
  if (blockIdx.x == gridDim.x - 1) *out = blockIdx.x;
}
static void case_many_blocks(long long* out, float*) { last_of_many_kernel<<<300000, 1>>>(out); }

// Host code.

static void case_streams_and_events(long long* out, float*) {
  cudaStream_t a, b;
  cudaEvent_t begin, end;
  long long codes[12] = {};
  codes[0] = cudaStreamCreate(&a) + cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking);
  codes[1] = cudaEventCreate(&begin) + cudaEventCreate(&end);
  codes[2] = cudaEventRecord(begin, a);
  cudaMemsetAsync(out + 20, 0, 8, a);
  add_kernel<<<1, 1, 0, a>>>(out + 20, 5);
  codes[3] = cudaStreamWaitEvent(b, begin, 0);
  double_kernel<<<1, 1, 0, b>>>(out + 20, 3);
  codes[4] = cudaEventRecord(end, b) + cudaEventSynchronize(end) + cudaStreamSynchronize(a);
  float ms = -1;
  codes[5] = cudaEventElapsedTime(&ms, begin, end);
  codes[6] = ms >= 0;
  codes[7] = cudaEventDestroy(begin) + cudaStreamDestroy(a) + cudaStreamDestroy(b);
  codes[8] = cudaEventRecord(begin, 0);
  codes[9] = cudaGetLastError();
  codes[10] = cudaGetLastError();
  cudaMemcpyAsync(codes + 11, out + 20, 8, cudaMemcpyDeviceToHost, b);
  cudaMemcpy(out, codes, sizeof codes, cudaMemcpyHostToDevice);
}

__constant__ int table[4];
__device__ long long state = 7;
__device__ long long tally[8];
__global__ void globals_kernel(long long* out) {
  out[threadIdx.x] = table[threadIdx.x] + state;
  __syncthreads();
  if (threadIdx.x == 0) state++;
  tally[threadIdx.x] += threadIdx.x;
}
static void case_globals(long long* out, float*) {
  int host[4] = {10, 20, 30, 40}, one = 5;
  cudaMemcpyToSymbol(table, host, sizeof host);
  cudaMemcpyToSymbol(table, &one, sizeof one, 2 * sizeof(int), cudaMemcpyHostToDevice);
  globals_kernel<<<1, 4>>>(out);
  long long back[3] = {};  // state, tally[3], code
  cudaMemcpyFromSymbol(&back[0], state, sizeof back[0]);
  void* address;
  cudaGetSymbolAddress(&address, tally);
  cudaMemcpy(&back[1], (long long*)address + 3, 8, cudaMemcpyDeviceToHost);
  back[2] = cudaMemcpyToSymbol(table, host, sizeof host, 4);
  cudaMemcpy(out + 4, back, sizeof back, cudaMemcpyHostToDevice);
}

static void case_copies(long long* out, float*) {
  long long codes[16] = {}, *code = codes;
  long long host[4] = {1, 2, 3, 4};
  char* scratch;
  cudaMalloc(&scratch, 32);
  *code++ = cudaMemcpy(scratch, host, 32, cudaMemcpyHostToDevice);
  *code++ = cudaMemcpy(scratch, host, 33, cudaMemcpyHostToDevice);
  *code++ = cudaMemcpy(host, scratch, 32, cudaMemcpyHostToDevice);
  *code++ = cudaMemcpy(scratch, host, 32, cudaMemcpyDeviceToDevice);
  *code++ = cudaMemcpy(scratch, host, 8, (cudaMemcpyKind)9);
  *code++ = cudaMemcpy(host + 1, scratch, 8, cudaMemcpyDefault);
  *code++ = cudaMemset(scratch, 0, 40);
  *code++ = cudaMemset(host, 0, 8);
  *code++ = cudaFree(scratch + 8);
  *code++ = cudaFree(scratch);
  *code++ = cudaFree(scratch);
  *code++ = cudaMemcpy(host, scratch, 8, cudaMemcpyDeviceToHost);
  *code++ = cudaMalloc(&scratch, (size_t)1 << 50);
  *code++ = cudaGetLastError();
  *code++ = cudaFree(nullptr);
  *code++ = host[1];
  cudaMemcpy(out, codes, sizeof codes, cudaMemcpyHostToDevice);
}

static void case_device_queries(long long* out, float*) {
  cudaDeviceProp properties;
  long long facts[16] = {}, *fact = facts;
  *fact++ = cudaGetDeviceProperties(&properties, 0);
  *fact++ = cudaGetDeviceProperties(&properties, 1);
  *fact++ = properties.warpSize;
  *fact++ = properties.maxThreadsPerBlock;
  *fact++ = properties.sharedMemPerBlock;
  *fact++ = properties.totalGlobalMem > 0;
  int blocks = -1, value = -1;
  *fact++ = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, add_kernel, 256, 0);
  *fact++ = blocks;
  *fact++ = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, add_kernel, 2000, 0);
  *fact++ = cudaDeviceGetAttribute(&value, cudaDevAttrMaxThreadsPerBlock, 0);
  *fact++ = value;
  *fact++ = cudaSetDevice(1);
  *fact++ = strcmp(cudaGetErrorString(cudaErrorInvalidConfiguration),
                   "invalid configuration argument");
  *fact++ = strcmp(cudaGetErrorName(cudaErrorMemoryAllocation), "cudaErrorMemoryAllocation");
  cudaGetLastError();
  cudaMemcpy(out, facts, sizeof facts, cudaMemcpyHostToDevice);
}

static void case_host_and_managed_memory(long long* out, float*) {
  long long *pinned, *managed, *mapped;
  cudaMallocHost(&pinned, 64);
  cudaHostAlloc(&mapped, 64, cudaHostAllocDefault);
  cudaMallocManaged(&managed, 64);
  *managed = 4;
  add_kernel<<<1, 1>>>(managed, 8);
  cudaDeviceSynchronize();
  *pinned = *managed;
  *mapped = *pinned + 1;
  cudaMemcpy(out, pinned, 8, cudaMemcpyHostToDevice);
  cudaMemcpy(out + 1, mapped, 8, cudaMemcpyHostToDevice);
  cudaFree(managed);
  cudaFreeHost(pinned);
  cudaFreeHost(mapped);
}

__global__ void print_kernel() {
  printf("block %d thread %d: %.3f %s\n", blockIdx.x, threadIdx.x, 0.125 * threadIdx.x, "text");
}
static void case_prints(long long*, float*) {
  printf("before\n");
  print_kernel<<<2, 2>>>();
  cudaDeviceSynchronize();
  printf("after %d\n", 1);
  fprintf(stderr, "on stderr\n");
  printf("last\n");
}
