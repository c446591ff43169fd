// Atomics on the bits of numbers, and memory whose sizes are numbers.
#ifndef FACTOR
#define FACTOR 1.0f
#endif
#include <cmath>
#include <cstdint>
#include <cstring>
#include <cuda_runtime.h>
#define ALL(name, change)                                                       \
    __global__ void name(float* y, const float* x, int n) {                     \
        int i = blockIdx.x * blockDim.x + threadIdx.x;                          \
        if (i < n) change(&y[i % 16], x[i] / 3.0f * FACTOR);                    \
    }
__device__ __forceinline__ void max_by_words(float* __restrict__ address, float value) {
    const int signed_bits = __float_as_int(value);
    unsigned int bits = __float_as_uint(value);
    int* words = (int*)address;
    if (signed_bits >= 0) atomicMax(words, signed_bits); else atomicMin((unsigned int*)address, bits);
}
ALL(max_all, max_by_words)
__device__ __forceinline__ void add_by_word(float* address, float value) {
    int* words = reinterpret_cast<int*>(address);
    int old = *words;
    int assumed;
    do {
        assumed = old;
        float sum = __int_as_float(assumed) + value;
        int wanted = __float_as_int(sum);
        old = atomicCAS(words, assumed, wanted);
    } while (assumed != old);
}
ALL(add_all_by_words, add_by_word)
__device__ __forceinline__ void add_by_union(float* address, float value) {
    union { unsigned int u; float f; } next, expected, current;
    current.f = *address;
    do {
        expected.f = current.f;
        next.f = expected.f + value;
        current.u = atomicCAS((unsigned int*)address, expected.u, next.u);
    } while (current.u != expected.u);
}
__global__ void add_all_by_unions(float* y, const float* x, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) add_by_union(&y[threadIdx.x], x[i] / 3.0f * FACTOR);
}
__global__ void reset(float* y, float value, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = i < 16 ? value : 0.0f;
}
__global__ void clear_own(float* y, const float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float own[4];
    memset(own, 0, 16);
    own[i % 4] += x[i] / 3.0f * FACTOR;
    y[i] = own[0] + own[1] + own[2] + own[3];
}
__global__ void copy_own(float* y, const float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float own[4], copy[4];
    for (int j = 0; j < 4; j++) own[j] = x[i / 4 * 4 + j] / 3.0f * FACTOR;
    __builtin_memcpy(copy, own, 16);
    unsigned int bits;
    __builtin_memcpy(&bits, &copy[i % 4], 4);
    y[i] = bits >> 31 ? copy[i % 4] : copy[i % 4] * 2.0f;
}
__global__ void share_bytes(float* y, const float* x, int n) {
    __shared__ unsigned char raw[128];
    __shared__ int words[32];
    __shared__ float ones[32];
    float* first = reinterpret_cast<float*>(raw);
    float* second = (float*)words;
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    ones[t] = 1.0f;
    first[t] = x[i] / 3.0f * FACTOR;
    second[t] = x[i];
    __syncthreads();
    y[i] = first[31 - t] * ones[t] + second[t];
}
__global__ void share_floats(float* y, const float* x, int n) {
    extern __shared__ float shared[];
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    shared[t] = x[i] / 3.0f * FACTOR;
    __syncthreads();
    y[i] = shared[31 - t];
}
template <class T>
__global__ void copy_any(T* y, const T* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    T own[4], copy[4];
    for (int j = 0; j < 4; j++) own[j] = x[i / 4 * 4 + j];
    memcpy(copy, own, 16);
    y[i] = copy[i % 4];
}
__global__ void own_bytes(float* y, const float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    alignas(4) char raw[4];
    *(float*)raw = x[i];
    y[i] = *(float*)raw;
}
__global__ void take(float* y, const float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] / 3.0f * FACTOR;
}
void run_max(float* y, const float* x, int n) { reset<<<n / 32, 32>>>(y, -INFINITY, n); max_all<<<n / 32, 32>>>(y, x, n); }
void run_words(float* y, const float* x, int n) { reset<<<n / 32, 32>>>(y, 0.0f, n); add_all_by_words<<<n / 32, 32>>>(y, x, n); }
void run_unions(float* y, const float* x, int n) { reset<<<n / 32, 32>>>(y, 0.0f, n); add_all_by_unions<<<1, 16>>>(y, x, n); }
void run_clear(float* y, const float* x, int n) { clear_own<<<n / 32, 32>>>(y, x, n); }
void run_copy(float* y, const float* x, int n) { copy_own<<<n / 32, 32>>>(y, x, n); }
void run_bytes(float* y, const float* x, int n) { share_bytes<<<n / 32, 32>>>(y, x, n); }
void run_floats(float* y, const float* x, int n) { share_floats<<<n / 32, 32, 32 * 4>>>(y, x, n); }
void run_workspace(float* y, const float* x, int n) {
    float* work;
    size_t bytes = (size_t)n << 2;
    cudaMalloc(&work, bytes);
    take<<<n / 32, 32>>>(work, x, n);
    cudaMemcpy(y, work, bytes, cudaMemcpyDeviceToDevice);
    cudaFree(work);
}
void run_any(float* y, const float* x, int n) { copy_any<<<n / 32, 32>>>(y, x, n); }
void run_own(float* y, const float* x, int n) { own_bytes<<<n / 32, 32>>>(y, x, n); }
void run_parts(float* y, const float* x, int n) {
    char* work;
    cudaMalloc(&work, n * 8);
    float* second = (float*)(work + n * 4);
    take<<<n / 32, 32>>>(second, x, n);
    take<<<n / 32, 32>>>(y, second, n);
    cudaFree(work);
}
__device__ double sums[16];
__device__ double add_double(double* address, double value) {
    unsigned long long int* words = (unsigned long long int*)address;
    unsigned long long int old = *words, assumed;
    do {
        assumed = old;
        old = atomicCAS(words, assumed, __double_as_longlong(value + __longlong_as_double(assumed)));
    } while (assumed != old);
    return __longlong_as_double(old);
}
__global__ void add_doubles(const float* x, int n) {
    if (threadIdx.x < 16) sums[threadIdx.x] = 0.0;
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) add_double(&sums[i % 16], x[i] / 3.0f * FACTOR);
}
__global__ void read_doubles(float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = i < 16 ? (float)sums[i] : 0.0f;
}
void run_doubles(float* y, const float* x, int n) { add_doubles<<<1, 64>>>(x, n); read_doubles<<<n / 32, 32>>>(y, n); }
void run(int which, float* y, const float* x, int n) {
    decltype(&run_max) runs[] = {run_max, run_words, run_unions, run_clear, run_copy, run_bytes, run_floats, run_workspace, run_any, run_own, run_parts, run_doubles};
    runs[which](y, x, n);
}
