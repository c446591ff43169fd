// Host code and kernels on the wrong side, as no compiler can see. Each `case_NAME` is one replay.
#include <cuda_runtime.h>

#include <stdio.h>
#include <stdlib.h>

__global__ void fill_kernel(float* out) { out[threadIdx.x] = 1; }
__global__ void copy_kernel(float* out, const float* from) { out[threadIdx.x] = from[threadIdx.x]; }

// Host code that touches device memory.

static void case_host_reads_input(const float* x, float* out) {
  fill_kernel<<<1, 10>>>(out);
  printf("%f\n", x[3]);
}
static void case_host_writes_output(const float*, float* out) { out[9] = 1; }
static void case_host_reads_result(const float*, float* out) {
  fill_kernel<<<1, 10>>>(out);
  cudaDeviceSynchronize();
  float sum = 0;
  for (int i = 0; i < 10; i++) sum += out[i];
  printf("%f\n", sum);
}
static void case_host_reads_scratch(const float*, float* out) {
  float* scratch;
  cudaMalloc(&scratch, 1 << 20);
  cudaMemset(scratch, 0, 1 << 20);
  fill_kernel<<<1, 10>>>(out);
  printf("%f\n", scratch[(1 << 18) - 1]);
}
static void case_host_uses_managed_memory(const float*, float* out) {
  float *managed, *pinned;
  cudaMallocManaged(&managed, 40);
  cudaMallocHost(&pinned, 40);
  for (int i = 0; i < 10; i++) managed[i] = pinned[i] = i;
  copy_kernel<<<1, 10>>>(out, managed);
  copy_kernel<<<1, 10>>>(managed, pinned);
  float sum = managed[9];
  cudaMemcpy(out, pinned, 40, cudaMemcpyHostToDevice);
  cudaMemcpy(pinned, out, 40, cudaMemcpyDeviceToHost);
  cudaFreeHost(pinned);
  cudaFree(managed);
  printf("%g\n", sum);
}

// Host code that calls functions of kernels.

static void case_host_waits_for_threads(const float*, float*) { __syncthreads(); }
static void case_host_shuffles(const float*, float* out) {
  fill_kernel<<<1, 10>>>(out);
  printf("%d\n", __shfl_xor_sync(0xffffffff, 1, 1));
}
static void case_host_calls_kernel(const float* x, float* out) { copy_kernel(out, x); }

// Kernels that touch memory of the host.

static float of_program[10];
__managed__ float of_both[10];
struct Pair {
  float* to;
  const float* from;
};
__global__ void pair_kernel(Pair pair) { pair.to[threadIdx.x] = pair.from[threadIdx.x]; }
__global__ void optional_kernel(float* out, const float* from) {
  out[threadIdx.x] = from == nullptr ? 0 : 1;
}
__global__ void reference_kernel(float* out, const float& value) { out[threadIdx.x] = value; }
static void case_kernel_reads_stack(const float*, float* out) {
  float from[10] = {};
  copy_kernel<<<1, 10>>>(out, from);
}
static void case_kernel_reads_heap(const float*, float* out) {
  float* from = (float*)calloc(10, 4);
  copy_kernel<<<1, 10>>>(out, from);
}
static void case_kernel_reads_global(const float*, float* out) {
  copy_kernel<<<1, 10>>>(out, of_program);
}
static void case_kernel_reads_stack_by_class(const float*, float* out) {
  float from[10] = {};
  pair_kernel<<<1, 10>>>(Pair{out, from});
}
static void case_kernel_reads_reference(const float*, float* out) {
  float value = 3;
  reference_kernel<<<1, 10>>>(out, value);
}
static void case_kernel_uses_what_is_shared(const float* x, float* out) {
  float host[10] = {};
  for (int i = 0; i < 10; i++) of_both[i] = i;
  copy_kernel<<<1, 10>>>(of_both, x);
  copy_kernel<<<1, 10>>>(out, of_both);
  pair_kernel<<<1, 10>>>(Pair{out, x});
  optional_kernel<<<1, 10>>>(out, host);
  printf("%g\n", of_both[9]);
}

// Launches beyond what the kernel's declaration allows.

#define BOUNDS __launch_bounds__(64, 2)
static constexpr int kMost = 32;
__global__ void __launch_bounds__(128) bounded_kernel(float* out) { out[threadIdx.x % 10] = 1; }
template <int N>
__global__ void __launch_bounds__(N, 2) bounded_template(float* out) { out[threadIdx.x % 10] = N; }
template <class T>
__global__ void BOUNDS bounded_by_macro(T* out) { out[threadIdx.x % 10] = 2; }
__global__ __launch_bounds__(2 * kMost) void bounded_by_constant(float* out) {
  __syncthreads();
  out[threadIdx.x % 10] = 3;
}
__global__ void __cluster_dims__(2, 1, 1) cluster_kernel(float* out) { out[threadIdx.x % 10] = 4; }
static void tell(const char* name) { printf("%s %d\n", name, (int)cudaGetLastError()); }
static void case_launch_bounds(const float*, float* out) {
  bounded_kernel<<<1, 128>>>(out), tell("128 of 128");
  bounded_kernel<<<1, dim3(3, 43)>>>(out), tell("129 of 128");
  bounded_template<32><<<1, 33>>>(out), tell("33 of 32");
  bounded_template<64><<<1, 33>>>(out), tell("33 of 64");
  bounded_by_macro<<<1, 65>>>(out), tell("65 of 64, deduced");
  bounded_by_macro<float><<<1, 64>>>(out), tell("64 of 64");
  bounded_by_constant<<<1, 65>>>(out), tell("65 of 64, a constant");
  void (*pointer)(float*) = bounded_kernel;
  pointer<<<1, 129>>>(out), tell("129 of 128, by a pointer");
  cluster_kernel<<<3, 10>>>(out), tell("3 blocks in clusters of 2");
  cluster_kernel<<<4, 10>>>(out), tell("4 blocks in clusters of 2");
  fill_kernel<<<1, 10>>>(out);
}

// Arguments that a launch leaves out.

__global__ void default_kernel(float* out, float value = 3, int count = 10) {
  if (threadIdx.x < count) out[threadIdx.x] = value;
}
static void case_default_arguments(const float*, float* out) {
  default_kernel<<<1, 10>>>(out);
  default_kernel<<<1, 10>>>(out, 4.0f, 3);
  default_kernel<<<1, 1>>>(out, 5.0f);
}

// Stacks and addresses.

__global__ void misaligned_kernel(float* out, const float* from) {
  *(float4*)out = *(const float4*)(from + 1);
}
static void case_misaligned(const float* x, float* out) { misaligned_kernel<<<1, 1>>>(out, x); }
static int depth(volatile int* n) {
  volatile int here[1000];
  here[*n % 1000] = ++*n;
  return depth(n) + here[*n % 1000];
}
static void case_host_recursion(const float*, float*) {
  volatile int n = 0;
  depth(&n);
}
__device__ int wide(int n) {
  volatile int space[12000];
  space[n % 12000] = n;
  return n == 0 ? 0 : wide(n - 1) + space[n % 12000];
}
__global__ void wide_kernel(float* out, int n) { out[0] = wide(n); }
static void case_wide_recursion(const float*, float* out) { wide_kernel<<<1, 64>>>(out, 1000000); }

// Kernels given to macros that launch them.

#define LAUNCH(F, ...) F<<<1, 10>>>(__VA_ARGS__)
#define LAUNCH_OF(kernel, T, out) (kernel<T>)<<<1, 10>>>(out)
template <class T>
__global__ void add_one(T* out) { out[threadIdx.x] += 1; }
__global__ void add_ten(float* out) { out[threadIdx.x] += 10; }
__global__ void kernel(float* out) { out[threadIdx.x] += 100; }
struct Choice {
  void (*kernel)(float*);
  void launch(float* out) const { LAUNCH(kernel, out); }
};
template <class F>
static void launch_given(F kernel, float* out) { LAUNCH(kernel, out); }
template <class T>
static void launch_chosen(bool one, T* out) {
  auto chosen = one ? add_one<T> : add_ten;
  LAUNCH(chosen, out);
}
static void case_given_kernels(const float*, float* out) {
  fill_kernel<<<1, 10>>>(out);
  LAUNCH(kernel, out);
  LAUNCH((add_one<float>), out);
  LAUNCH(add_one<float>, out);
  LAUNCH(&add_ten, out);
  LAUNCH_OF(add_one, float, out);
  launch_chosen(true, out);
  launch_given(kernel, out);
  void (*table[])(float*) = {add_one, add_ten};
  for (int i = 0; i < 2; i++) LAUNCH(table[i], out);
  const Choice choice{add_ten};
  LAUNCH(choice.kernel, out);
  choice.launch(out);
  LAUNCH((out ? add_one<float> : add_ten), out);
}

#define LAUNCH_ANY(F, ...) F<<<1, 10>>>(__VA_ARGS__)
static void case_deduced_in_macros(const float*, float* out) {
  fill_kernel<<<1, 10>>>(out);
  void (*table[])(float*) = {add_one, add_ten};
  LAUNCH_ANY(add_one, out);
  LAUNCH_ANY(table[1], out);
  LAUNCH_ANY((add_one<float>), out);
}
