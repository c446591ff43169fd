// Code that does what it must not. Each `case_NAME` is one replay; `in` has 10 floats, `out` 10.
#include <cuda_runtime.h>

#include <assert.h>
#include <stdexcept>
#include <stdio.h>
#include <stdlib.h>

// Threads that wait for others.

__global__ void two_barriers_kernel(float* out) {
  if (threadIdx.x < 40) {
    __syncthreads();
  } else {
    __syncthreads();
  }
  out[0] = 1;
}
static void case_two_barriers(const float*, float* out) { two_barriers_kernel<<<2, 64>>>(out); }

__global__ void missing_lane_kernel(float* out) {
  if (threadIdx.x != 9) out[0] = __shfl_sync(0xffffffffu, 1.0f, 0);
  __syncthreads();
}
static void case_missing_lane(const float*, float* out) { missing_lane_kernel<<<1, 64>>>(out); }

__global__ void caller_outside_the_mask_kernel(float* out) {
  out[0] = __ballot_sync(0x0000ffffu, 1);
}
static void case_caller_outside_the_mask(const float*, float* out) {
  caller_outside_the_mask_kernel<<<1, 32>>>(out);
}

// Memory.

__global__ void write_kernel(float* p, long long index) {
  if (blockIdx.x == 2 && threadIdx.y == 1) p[index] = 1;
}
__global__ void read_kernel(const float* p, long long index, float* out) { *out = p[index]; }
static void write(float* p, long long index) { write_kernel<<<4, dim3(3, 2)>>>(p, index); }
static void case_write_past_output(const float*, float* out) { write(out, 100); }
static void case_write_before_output(const float*, float* out) { write(out, -2000); }
static void case_read_past_input(const float* in, float* out) {
  read_kernel<<<1, 1>>>(in, 64, out);
}
static float* scratch_of(size_t bytes) {
  float* scratch;
  cudaMalloc(&scratch, bytes);
  return scratch;
}
static void case_write_past_scratch(const float*, float*) { write(scratch_of(4096), 1024); }
static void case_write_null(const float*, float*) { write(nullptr, 2); }
static void case_use_after_free(const float*, float*) {
  float* scratch = scratch_of(4096);
  cudaFree(scratch);
  write(scratch, 3);
}
static void case_small_overrun(const float*, float* out) {
  write_kernel<<<3, dim3(1, 2)>>>(out, 11);
  cudaMemset(out, 0, 40);
}
static void case_overrun_of_freed_scratch(const float*, float* out) {
  float* scratch = scratch_of(40);
  write(scratch, 12);
  cudaFree(scratch);
  cudaMemset(out, 0, 40);
}
static void case_small_underrun(const float*, float* out) {
  write(out, -3);
  cudaMemset(out, 0, 40);
}
__global__ void shared_overrun_kernel(int n) {
  extern __shared__ float box[];
  box[n] = threadIdx.x;
}
static void case_shared_overrun(const float*, float*) { shared_overrun_kernel<<<1, 32, 512>>>(128); }
__global__ void too_much_shared_kernel(float* out) {
  extern __shared__ float dynamic[];
  __shared__ float fixed[8192];
  fixed[0] = dynamic[0] = 1;
  out[0] = fixed[0];
}
static void case_too_much_shared(const float*, float* out) {
  too_much_shared_kernel<<<1, 1, 20000>>>(out);
}
__device__ int deep(int n) {
  volatile int space[1000];
  space[n % 1000] = n;
  return n == 0 ? 0 : deep(n - 1) + space[n % 1000];
}
__global__ void deep_kernel(float* out, int n) { out[0] = deep(n); }
static void case_stack_overflow(const float*, float* out) { deep_kernel<<<1, 2>>>(out, 1000000); }
static void case_host_reads_null(const float*, float*) {
  volatile int* nothing = nullptr;
  printf("%d\n", *nothing);
}

// What ends a kernel or the program.

__global__ void divide_kernel(float* out, int zero) { out[0] = 7 / zero; }
static void case_division_by_zero(const float*, float* out) { divide_kernel<<<1, 1>>>(out, 0); }
__global__ void assert_kernel() { assert(threadIdx.x < 5); }
static void case_device_assert(const float*, float*) { assert_kernel<<<1, 8>>>(); }
__global__ void trap_kernel() {
  if (threadIdx.x == 3) __trap();
}
static void case_trap(const float*, float*) { trap_kernel<<<1, 8>>>(); }
#define CHECK(call)                                                                      \
  do {                                                                                   \
    cudaError_t error = call;                                                            \
    if (error != cudaSuccess) {                                                          \
      printf("%s at line %d\n", cudaGetErrorString(error), __LINE__);                    \
      exit(3);                                                                           \
    }                                                                                    \
  } while (0)
static void case_exit(const float*, float* out) { CHECK(cudaMemset(out, 0, 4000)); }
static void case_abort(const float*, float*) { abort(); }
static void case_exception(const float*, float*) { throw std::runtime_error("of the host"); }
static void case_host_assert(const float* in, float*) { assert(in == nullptr); }

// What never ends, or wants everything.

__global__ void endless_kernel(float* out) {
  while (blockIdx.x == 1) *(volatile float*)out = 1;
}
static void case_endless_kernel(const float*, float* out) { endless_kernel<<<2, 1024>>>(out); }
static void case_endless_host(const float*, float* out) {
  for (volatile int i = 0;; i++) (void)out;
}
__global__ void waits_for_a_later_block_kernel(int* flag) {
  if (blockIdx.x == 0) {
    while (atomicAdd(flag, 0) == 0) {}
  } else {
    atomicExch(flag, 1);
  }
}
static void case_waits_for_a_later_block(const float*, float* out) {
  cudaMemset(out, 0, 4);
  waits_for_a_later_block_kernel<<<2, 1>>>((int*)out);
}
static void case_host_takes_all_memory(const float*, float* out) {
  for (int i = 0;; i++) {
    char* block = (char*)malloc((size_t)1 << 28);
    if (block == nullptr) {
      printf("malloc gave null\n");
      abort();
    }
    *block = 1;
  }
}
static void case_new_takes_all_memory(const float*, float* out) {
  for (char* volatile block;; *block = 1) block = new char[(size_t)1 << 28];
}

// Memory that nobody wrote.

__global__ void some_kernel(float* out) {
  if (threadIdx.x % 4 != 2) out[threadIdx.x] = 1;
}
static void case_unwritten(const float*, float* out) { some_kernel<<<1, 10>>>(out); }
__global__ void copy_kernel(float* out, const float* from) {
  out[threadIdx.x] = threadIdx.x < 5 ? from[threadIdx.x] : 0;
}
static void case_reads_scratch(const float*, float* out) {
  copy_kernel<<<1, 10>>>(out, scratch_of(40));
}
__global__ void shared_read_kernel(float* out, int is_dynamic) {
  __shared__ float fixed[10];
  extern __shared__ float dynamic[];
  float* box = is_dynamic ? dynamic : fixed;
  if (threadIdx.x < 8) box[threadIdx.x] = 1;
  __syncthreads();
  out[threadIdx.x] = box[threadIdx.x];
}
static void case_reads_static_shared(const float*, float* out) {
  shared_read_kernel<<<1, 10, 40>>>(out, 0);
}
static void case_reads_dynamic_shared(const float*, float* out) {
  shared_read_kernel<<<3, 10, 40>>>(out, 1);
}

// The same as above, in kernels with barriers.

__global__ void barrier_or_not_kernel(float* out, int n) {
  for (int i = 0; i < n; i++) {
    if (threadIdx.y == 1 && i == 2) {
      if (threadIdx.x > 7) return;
      __syncthreads();
    }
    __syncthreads();
  }
  out[0] = n;
}
static void case_barrier_or_not(const float*, float* out) {
  barrier_or_not_kernel<<<2, dim3(10, 2)>>>(out, 5);
}
__global__ void write_after_barrier_kernel(float* p, int n) {
  __shared__ int box[32];
  box[threadIdx.x] = n;
  for (int i = 0; i < 3; i++) {
    __syncthreads();
    if (i == 2 && threadIdx.x == 9) p[1000 * box[8]] = 1;
  }
}
static void case_write_after_barrier(const float*, float* out) {
  write_after_barrier_kernel<<<1, 32>>>(out, 1);
}

// Cooperative launches.
#include <cooperative_groups.h>
__global__ void grid_kernel(float* out, unsigned leaves) {
  if (blockIdx.x < leaves) return;
  cooperative_groups::this_grid().sync();
  out[0] = 1;
}
static void case_grid_without_cooperation(const float*, float* out) { grid_kernel<<<2, 32>>>(out, 0); }
static void case_blocks_that_leave(const float*, float* out) {
  unsigned leaves = 3;
  void* arguments[] = {&out, &leaves};
  cudaLaunchCooperativeKernel((void*)grid_kernel, 8, 32, arguments);
}
static void case_more_blocks_than_fit(const float*, float* out) {
  unsigned leaves = 0;
  void* arguments[] = {&out, &leaves};
  cudaLaunchCooperativeKernel((void*)grid_kernel, 132 * 2 + 1, 1024, arguments);
}

// Clusters.
__global__ void __cluster_dims__(2, 1, 1) cluster_kernel(float* out, int how) {
  __shared__ float own[32];
  cooperative_groups::cluster_group cluster = cooperative_groups::this_cluster();
  own[threadIdx.x] = 1;
  if (how == 0 && cluster.block_rank() == 0) return;
  if (how == 1 && threadIdx.x < 16) __syncthreads();
  if (how == 2) cluster.barrier_arrive();
  if (how == 3) cluster.barrier_wait();
  const unsigned rank = how == 4 ? 2 : 1 - cluster.block_rank();
  if (how == 5) cluster.map_shared_rank(out, 0);
  if (how == 0) out[0] = *cluster.map_shared_rank(&own[threadIdx.x], rank);
  cluster.sync();
  out[threadIdx.x % 10] = *cluster.map_shared_rank(&own[threadIdx.x], rank);
  cluster.sync();
}
static void case_block_that_has_ended(const float*, float* out) { cluster_kernel<<<2, 32>>>(out, 0); }
static void case_cluster_beside_a_barrier(const float*, float* out) { cluster_kernel<<<4, 32>>>(out, 1); }
static void case_arrives_twice(const float*, float* out) { cluster_kernel<<<2, 32>>>(out, 2); }
static void case_waits_without_arriving(const float*, float* out) { cluster_kernel<<<2, 32>>>(out, 3); }
static void case_rank_of_nobody(const float*, float* out) { cluster_kernel<<<2, 32>>>(out, 4); }
static void case_not_shared(const float*, float* out) { cluster_kernel<<<2, 32>>>(out, 5); }

// Kernels that wait for lanes of a warp.

__global__ void fold_or_barrier_kernel(float* out, int n) {
  float x = n;
  if (threadIdx.x == 35) return;
  if (threadIdx.x % 4 == 1) {
    __syncthreads();
  } else {
    for (int d = 16; d > 0; d /= 2) x += __shfl_xor_sync(0xffffffff, x, d);
  }
  out[0] = x;
}
static void case_fold_or_barrier(const float*, float* out) { fold_or_barrier_kernel<<<2, 60>>>(out, 5); }
__global__ void write_after_fold_kernel(float* p, int n) {
  int sum = n;
  for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(0xffffffff, sum, d);
  if (threadIdx.x == 41) p[1000 * sum] = 1;
}
static void case_write_after_fold(const float*, float* out) { write_after_fold_kernel<<<1, 64>>>(out, 1); }

// Threads that let others run in front of an atomic; the first fault of all is one of theirs, or of a later thread.
__global__ void write_after_atomics_kernel(float* p, int who) {
  for (int k = 0; k < 3; k++) atomicAdd(&p[k], 1.0f);
  if (threadIdx.x == who) p[1000 * who] = 1;
}
static void case_write_of_a_thread_that_let_others_run(const float*, float* out) {
  write_after_atomics_kernel<<<1, 300>>>(out, 85);
}
static void case_write_behind_a_thread_that_let_others_run(const float*, float* out) {
  write_after_atomics_kernel<<<1, 300>>>(out, 87);
}
static void case_exception_of_no_class(const float*, float*) { throw 3; }
