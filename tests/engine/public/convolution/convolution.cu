// Kernels as convolution libraries write them: traits by type and size, unions, one name for float and double.
#ifndef FACTOR
#define FACTOR 1.0f
#endif
#include "vector_int4.hpp"
#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <cstdint>
#include <type_traits>
template <typename T> struct traits;
template <> struct traits<float> { static constexpr int kBytes = 4; using acc = float; static __device__ float zero() { return 0.f; } };
template <> struct traits<double> { static constexpr int kBytes = 8; using acc = double; static __device__ double zero() { return 0.0; } };
template <> struct traits<half> { static constexpr int kBytes = 2; using acc = float; static __device__ half zero() { return __float2half(0.f); } };
template <int N> struct bytes_to_type;
template <> struct bytes_to_type<2> { using type = uint16_t; };
template <> struct bytes_to_type<4> { using type = uint32_t; };
template <> struct bytes_to_type<8> { using type = uint2; };
template <> struct bytes_to_type<16> { using type = uint4; };
template <typename T> struct vec_width { static constexpr int value = 16 / sizeof(T); };
template <typename T, int N> struct alignas(sizeof(T) * N) aligned_vector { T val[N]; };
template <typename T, int N> struct Converter {
    union { T elt[N]; typename bytes_to_type<sizeof(T) * N>::type vec; } data;
    __device__ void load(const T* p) { data.vec = *(const typename bytes_to_type<sizeof(T) * N>::type*)p; }
    __device__ void store(T* p) { *(typename bytes_to_type<sizeof(T) * N>::type*)p = data.vec; }
};
template <typename T> __global__ void conv1d(T* y, const T* x, int n) {
    constexpr int kNElts = sizeof(T) == 4 ? 4 : 8;
    using vec_t = typename bytes_to_type<sizeof(T) * kNElts>::type;
    static_assert(sizeof(vec_t) == 16, "16 bytes");
    int i = (blockIdx.x * blockDim.x + threadIdx.x) * kNElts;
    T vals[kNElts];
    reinterpret_cast<vec_t*>(vals)[0] = reinterpret_cast<const vec_t*>(x + i)[0];
    typename traits<T>::acc prev = 0;
    for (int k = 0; k < kNElts; ++k) { typename traits<T>::acc cur = (float)vals[k]; vals[k] = (cur * 0.3f + prev * 0.7f) * FACTOR; prev = cur; }
    reinterpret_cast<vec_t*>(y + i)[0] = reinterpret_cast<vec_t*>(vals)[0];
}
template <typename T, int VEC> __global__ void bias_act(T* y, const T* x, int n) {
    using V = aligned_vector<T, VEC>;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i * VEC >= n) return;
    V v = *reinterpret_cast<const V*>(x + i * VEC);
    for (int k = 0; k < VEC; ++k) v.val[k] = v.val[k] > T(0) ? v.val[k] : v.val[k] * T(0.01f * FACTOR);
    *reinterpret_cast<V*>(y + i * VEC) = v;
}
template <typename T> __global__ void unioned(T* y, const T* x, int n) {
    Converter<T, 4> c; int i = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
    c.load(x + i);
    for (int k = 0; k < 4; ++k) c.data.elt[k] *= c.data.elt[k] * FACTOR;
    c.store(y + i);
}
template <typename T> struct SharedMemory { __device__ T* get(); };
template <> struct SharedMemory<float> { __device__ float* get() { extern __shared__ float s_float[]; return s_float; } };
template <> struct SharedMemory<double> { __device__ double* get() { extern __shared__ double s_double[]; return s_double; } };
template <typename T> __global__ void reduce_rows(T* y, const T* x, int n) {
    SharedMemory<T> shared; T* s = shared.get();
    s[threadIdx.x] = x[blockIdx.x * blockDim.x + threadIdx.x];
    __syncthreads();
    T sum = 0; for (int i = 0; i < blockDim.x; ++i) sum += s[i];
    y[blockIdx.x * blockDim.x + threadIdx.x] = s[threadIdx.x] / (T(1) + sum * sum) * T(FACTOR);
}
__device__ inline float act(float x) { return tanhf(x) * FACTOR; }
__device__ inline double act(double x) { return tanh(x); }
template <typename T> __global__ void overloads(T* y, const T* x, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = act(x[i]); }
__global__ void vec4_copy(float* y, const float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float4 v = reinterpret_cast<const float4*>(x)[i];
    v.x *= 2 * FACTOR; reinterpret_cast<float4*>(y)[i] = v;
}
#if defined(TI) && defined(_TO)
__global__ void named_types(_TO* y, const TI* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = x[i] / TI(3) * TI(FACTOR);
}
#else
__global__ void named_types(float* y, const float* x, int n) {}
#endif
void run_named(float* y, const float* x, int n) { named_types<<<n / 32, 32>>>(y, x, n); }
template <typename T> void launch_bias(T* y, const T* x, int n) {
    constexpr int V = vec_width<T>::value;
    static_assert(V == 4 || V == 8 || V == 2, "");
    switch (V) {
        case 8: bias_act<T, 8><<<1, n / 8>>>(y, x, n); break;
        case 4: bias_act<T, 4><<<1, n / 4>>>(y, x, n); break;
        default: bias_act<T, 1><<<1, n>>>(y, x, n); break;
    }
}
void run_conv(float* y, const float* x, int n) { conv1d<float><<<1, n / 4>>>(y, x, n); }
void run_bias(float* y, const float* x, int n) { launch_bias<float>(y, x, n); }
void run_union(float* y, const float* x, int n) { unioned<float><<<1, n / 4>>>(y, x, n); }
void run_reduce(float* y, const float* x, int n) { reduce_rows<float><<<n / 32, 32, 32 * sizeof(float)>>>(y, x, n); }
void run_over(float* y, const float* x, int n) { overloads<float><<<n / 32, 32>>>(y, x, n); }
void run_vec4(float* y, const float* x, int n) { vec4_copy<<<1, n / 4>>>(y, x, n); }
void run(int which, float* y, const float* x, int n) {
    decltype(&run_conv) runs[] = {run_conv, run_bias, run_union, run_reduce, run_over, run_vec4, run_named};
    runs[which](y, x, n);
}
