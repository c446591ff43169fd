// Kernels that wait for nobody but let others run in front of atomics and at fences: one call runs each thread to its
// end, unless it lets others run. `out` shows the order in which threads run, and `real` has their values; a case may
// leave elements unwritten.
#include <cuda_runtime.h>

/// What the order of turns makes of `what`.
__device__ void mark(long long* out, int what) { out[0] = (long long)((unsigned long long)out[0] * 31 + what); }
static void clear(long long* out, float* real) {
  cudaMemset(out, 0, 4096 * sizeof(long long));
  cudaMemset(real, 0, 4096 * sizeof(float));
}
__device__ float number(int t) { return 1.0f / (3 + t * 7 % 1000); }
__device__ unsigned drawn(unsigned seed, unsigned step, unsigned of) {
  unsigned x = seed * 0x9e3779b9u ^ step * 0x85ebca6bu ^ of * 0xc2b2ae35u;
  x ^= x >> 15, x *= 0x2c1b3c6du, x ^= x >> 12, x *= 0x297a2d39u;
  return x ^ x >> 15;
}

/// Sums of floats: their bits depend on the order.
__global__ void sums_kernel(long long* out, float* real, int rounds) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  mark(out, t);
  for (int round = 0; round < rounds; round++) {
    atomicAdd(&real[drawn(1, round, t) % 7], number(t + round));
    mark(out, t + round);
  }
}
static void case_sums(long long* out, float* real) { clear(out, real), sums_kernel<<<5, 96>>>(out, real, 2); }
static void case_sums_of_many_threads(long long* out, float* real) { clear(out, real), sums_kernel<<<2, 1000>>>(out, real, 3); }
static void case_sums_of_long_loops(long long* out, float* real) { clear(out, real), sums_kernel<<<3, 37>>>(out, real, 700); }
static void case_sums_of_one_thread(long long* out, float* real) { clear(out, real), sums_kernel<<<2, 1>>>(out, real, 1000); }
static void case_sums_of_nothing(long long* out, float* real) { clear(out, real), sums_kernel<<<2, 64>>>(out, real, 0); }

/// Tickets: each thread takes the next place.
__global__ void tickets_kernel(long long* out, float* real, int* next) {
  if (threadIdx.x % 5 == 3) return;
  for (int k = 0; k < 3; k++) {
    int at = atomicAdd(next, 1);
    out[at % 4096] = blockIdx.x * 10000 + threadIdx.x * 10 + k;
  }
  real[threadIdx.y * blockDim.x + threadIdx.x] = number(threadIdx.x);
}
static void case_tickets(long long* out, float* real) {
  int* next;
  cudaMalloc(&next, sizeof(int));
  cudaMemset(next, 0, sizeof(int));
  clear(out, real), tickets_kernel<<<3, dim3(20, 9, 2)>>>(out, real, next);
  cudaFree(next);
}

/// Threads spin for a lock, one inside of the other's turn.
__device__ int locked;
__device__ void lock(long long* out) {
  while (atomicCAS(&locked, 0, 1) != 0) mark(out, 7);
}
__device__ void unlock() {
  __threadfence();
  atomicExch(&locked, 0);
}
__global__ void locks_kernel(long long* out, float* real) {
  float kept[5] = {number(threadIdx.x), 1, 2, 3, number(threadIdx.x + 5)};
  for (int k = 0; k < 5; k++) {
    lock(out);
    real[1] = real[1] * 0.75f + kept[k];
    for (int n = 0; n < 30; n++) __threadfence_block();
    real[2] += real[1] * kept[4 - k];
    unlock();
  }
  mark(out, threadIdx.x);
}
static void case_locks(long long* out, float* real) { clear(out, real), locks_kernel<<<2, 70>>>(out, real); }

/// The first threads wait for the last one, and the last for them.
__global__ void flags_kernel(long long* out, float* real, unsigned* flags) {
  unsigned t = threadIdx.x, last = blockDim.x - 1;
  if (t == last) {
    atomicExch(&flags[0], 1u);
    while (atomicAdd(&flags[1], 0u) != last) mark(out, 3);
  } else {
    while (atomicOr(&flags[0], 0u) == 0) mark(out, t);
    atomicInc(&flags[1], 100000u);
  }
  mark(out, 1000 + t);
  real[t] = number(t);
}
static void case_flags(long long* out, float* real) {
  unsigned* flags;
  cudaMalloc(&flags, 8);
  for (int threads : {2, 33, 300}) {
    cudaMemset(flags, 0, 8);
    clear(out, real), flags_kernel<<<1, threads>>>(out, real, flags);
  }
  cudaFree(flags);
}

/// Blocks of a cooperative launch wait for each other.
__global__ void blocks_kernel(long long* out, float* real, unsigned* arrived, unsigned threads) {
  mark(out, blockIdx.x * 1000 + threadIdx.x);
  atomicAdd(arrived, 1u);
  while (atomicAdd(arrived, 0u) < threads) {}
  mark(out, threadIdx.x);
  atomicAdd(&real[threadIdx.x % 3], number(blockIdx.x * 100 + threadIdx.x));
}
static void case_blocks(long long* out, float* real) {
  unsigned *arrived, threads = 3 * 40;
  cudaMalloc(&arrived, 4);
  cudaMemset(arrived, 0, 4);
  clear(out, real);
  void* arguments[] = {&out, &real, &arrived, &threads};
  cudaLaunchCooperativeKernel((void*)blocks_kernel, dim3(3), dim3(40), arguments, 0, nullptr);
  cudaFree(arrived);
}

/// The sources' own atomic, and functions that ask for the index.
__device__ float atomicMaxFloat(float* at, float value) {
  int* bits = (int*)at;
  int old = *bits, expected;
  do {
    expected = old;
    if (__int_as_float(expected) >= value) break;
    old = atomicCAS(bits, expected, __float_as_int(value));
  } while (old != expected);
  return __int_as_float(old);
}
__device__ int own() { return threadIdx.x + blockDim.x * threadIdx.y; }
__global__ void maxima_kernel(long long* out, float* real, int n) {
  n -= own();
  real += 1;
  float before = 0;
  for (int k = 0; k < 9; k++) before += atomicMaxFloat(&real[k % 4], number(own() * 3 + k) + k);
  atomicAdd(&real[10 + n % 5], before);
  mark(out, own() + n);
}
static void case_maxima(long long* out, float* real) { clear(out, real), maxima_kernel<<<4, dim3(33, 7)>>>(out, real, 500); }

/// A lambda and shared memory, with atomics on both kinds of memory.
__global__ void shared_kernel(long long* out, float* real, int n) {
  __shared__ unsigned counts[8];
  auto add = [&](int i) { return atomicAdd(&counts[i % 8], 1u); };
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    unsigned before = add(i + i / 9);
    if (before % 11 == 0) atomicSub((int*)&real[100 + i % 3], 5);
    out[1 + i % 4000] = before;
  }
  mark(out, threadIdx.x);
}
static void case_shared(long long* out, float* real) { clear(out, real), shared_kernel<<<1, 128>>>(out, real, 3000); }

/// All of it, as drawn.
__global__ void drawn_kernel(long long* out, float* real, unsigned seed) {
  int t = threadIdx.x;
  for (int step = 0; step < 6; step++) {
    unsigned what = drawn(seed, step, t);
    mark(out, 100 * t + step);
    if (what % 19 == 0) return;
    if (what % 3 == 0) __threadfence();
    for (unsigned k = 0; k < what % 40; k++) real[t] += atomicAdd(&real[3000 + k % 2], number(t + k));
  }
}
static void case_drawn(long long* out, float* real) {
  clear(out, real);
  for (unsigned seed = 0; seed < 60; seed++) drawn_kernel<<<2, 1 + drawn(seed, 0, 0) % 300>>>(out, real, seed);
}
