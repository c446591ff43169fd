// Kernels that look at the bits of numbers, and shared memory carved from bytes.
#ifndef FACTOR
#define FACTOR 1.0f
#endif
#include <cstdint>
#include <cstring>
#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <cuda_bf16.h>
__global__ void quantize_int8(int8_t* q, float* scales, const float* x, int n) {
    int row = blockIdx.x, t = threadIdx.x;
    float amax = fabsf(x[row * 32 + t]);
    for (int o = 16; o > 0; o >>= 1) amax = fmaxf(amax, __shfl_xor_sync(0xffffffff, amax, o));
    float scale = amax / 127.f;
    if (t == 0) scales[row] = scale;
    q[row * 32 + t] = (int8_t)rintf(x[row * 32 + t] / scale);
}
__global__ void dequantize(float* y, const int8_t* q, const float* scales) {
    int i = blockIdx.x * 32 + threadIdx.x;
    y[i] = (float)q[i] * scales[blockIdx.x];
}
__global__ void dequantize4(float* y, const int8_t* q, const float* scales) {
    int i = (blockIdx.x * 8 + threadIdx.x);
    char4 v = reinterpret_cast<const char4*>(q)[i];
    float s = scales[blockIdx.x];
    reinterpret_cast<float4*>(y)[i] = make_float4(v.x * s, v.y * s, v.z * s, v.w * s);
}
__device__ float round_stochastic(float x, uint32_t r) {
    uint32_t bits = __float_as_uint(x);
    bits += r & 0xFFFF; bits &= 0xFFFF0000u;
    return __uint_as_float(bits);
}
__global__ void sr_kernel(float* y, const float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = round_stochastic(x[i], i * 2654435761u);
}
__global__ void to_half_and_back(float* y, const float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) { half h = __float2half_rn(x[i]); y[i] = __half2float(h) * 3.0f; }
}
__global__ void hash_bits(float* y, const float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    uint32_t h; memcpy(&h, &x[i], sizeof(float));
    h ^= h >> 16; h *= 0x85ebca6bu; h ^= h >> 13;
    y[i] = x[i] * FACTOR + (h & 1 ? 1.0f : 0.0f);
}
union Bits { float f; uint32_t u; };
__global__ void hash_union(float* y, const float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    Bits b; b.f = x[i] * 0.1f; uint32_t h = (b.u >> 23) * 2654435761u;
    y[i] = x[i] * FACTOR * (h >> 31 ? 2.0f : 1.0f);
}
__global__ void carve(float* y, const float* x, int n) {
    extern __shared__ char smem[];
    float* values = reinterpret_cast<float*>(smem);
    int* index = reinterpret_cast<int*>(smem + blockDim.x * sizeof(float));
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    values[t] = x[i]; index[t] = (t * 7) % blockDim.x;
    __syncthreads();
    y[i] = values[index[t]] * 2.0f * FACTOR;
}
struct Storage { float partial[32]; int count[32]; };
__global__ void placed(float* y, const float* x, int n) {
    extern __shared__ unsigned char raw[];
    Storage& s = *reinterpret_cast<Storage*>(raw);
    Storage& again = reinterpret_cast<Storage&>(raw);
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    s.partial[t] = x[i]; again.count[t] = t;
    __syncthreads();
    y[i] = s.partial[31 - again.count[t]] * FACTOR + 1.0f;
}
__global__ void carve4(float* y, const float* x, int n) {
    extern __shared__ char smem4[];
    float* values = (float*)smem4;
    unsigned int* flags = (unsigned int*)&smem4[32 * 4];
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    values[t] = x[i]; flags[t] = t & 1;
    __syncthreads();
    y[i] = values[t] * (flags[t] ? 1.0f : 3.0f);
}
__global__ void fast_rsqrt(float* y, const float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n) return;
    float v = fabsf(x[i]) / 3.0f + 1.0f; int b = *(int*)&v; b = 0x5f3759df - (b >> 1);
    float r = *(float*)&b; y[i] = r * (1.5f - 0.5f * v * r * r);
}
__global__ void is_nan_bits(float* y, const float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n) return;
    float v = x[i] / 3.0f * FACTOR;
    bool bad = (__float_as_uint(v) & 0x7f800000u) == 0x7f800000u;
    y[i] = bad ? 0.0f : v;
}
__global__ void shuffle_bits(float* y, const float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = x[i] / 3.0f * FACTOR;
    y[i] = __int_as_float(__shfl_xor_sync(0xffffffff, __float_as_int(v), 1));
}
__global__ void hash_bytes(float* y, const float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n) return;
    float v = x[i] * 0.25f; uint32_t h = 0;
    for (int k = 0; k < 4; k++) h = h * 31 + ((unsigned char*)&v)[k];
    unsigned word; memcpy(&word, (const char*)&v, sizeof(word));
    float copy; memcpy((char*)&copy, (char*)&v, sizeof(float));
    y[i] = copy * FACTOR + (float)((h ^ word) & 7u);
}
__global__ void hash_kept_bytes(float* y, const float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n) return;
    float v = x[i]; uint32_t h = 0;
    const unsigned char* bytes = reinterpret_cast<const unsigned char*>(&v);
    for (int k = 0; k < 4; k++) h = h * 31 + bytes[k];
    y[i] = v + (float)(h & 1);
}
__global__ void upper_half(float* y, const float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n) return;
    float v = x[i]; unsigned short upper;
    memcpy(&upper, (const char*)&v + 2, 2);
    y[i] = v + (float)(upper & 1);
}
__global__ void copied_bytes(float* y, const float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n) return;
    float v = x[i]; unsigned char bytes[4];
    memcpy(bytes, &v, 4);
    y[i] = v + (float)(bytes[0] & 1);
}
void run_bytes(float* y, const float* x, int n) { hash_bytes<<<n / 32, 32>>>(y, x, n); }
void run_kept_bytes(float* y, const float* x, int n) { hash_kept_bytes<<<n / 32, 32>>>(y, x, n); }
void run_upper(float* y, const float* x, int n) { upper_half<<<n / 32, 32>>>(y, x, n); }
void run_copied(float* y, const float* x, int n) { copied_bytes<<<n / 32, 32>>>(y, x, n); }
void run_q8(float* y, const float* x, int n) { int8_t* q; float* s; cudaMalloc(&q, n); cudaMalloc(&s, n / 32 * sizeof(float)); quantize_int8<<<n / 32, 32>>>(q, s, x, n); dequantize<<<n / 32, 32>>>(y, q, s); }
void run_q84(float* y, const float* x, int n) { int8_t* q; float* s; cudaMalloc(&q, n); cudaMalloc(&s, n / 32 * sizeof(float)); quantize_int8<<<n / 32, 32>>>(q, s, x, n); dequantize4<<<n / 32, 8>>>(y, q, s); }
void run_sr(float* y, const float* x, int n) { sr_kernel<<<n / 32, 32>>>(y, x, n); }
void run_half(float* y, const float* x, int n) { to_half_and_back<<<n / 32, 32>>>(y, x, n); }
void run_hash(float* y, const float* x, int n) { hash_bits<<<n / 32, 32>>>(y, x, n); }
void run_hashu(float* y, const float* x, int n) { hash_union<<<n / 32, 32>>>(y, x, n); }
void run_carve(float* y, const float* x, int n) { carve<<<n / 32, 32, 32 * (sizeof(float) + sizeof(int))>>>(y, x, n); }
void run_placed(float* y, const float* x, int n) { placed<<<n / 32, 32, sizeof(Storage)>>>(y, x, n); }
void run_carve4(float* y, const float* x, int n) { carve4<<<n / 32, 32, 32 * 4 * 2>>>(y, x, n); }
void run_rsqrt(float* y, const float* x, int n) { fast_rsqrt<<<n / 32, 32>>>(y, x, n); }
void run_nan(float* y, const float* x, int n) { is_nan_bits<<<n / 32, 32>>>(y, x, n); }
void run_shfl(float* y, const float* x, int n) { shuffle_bits<<<n / 32, 32>>>(y, x, n); }
void run(int which, float* y, const float* x, int n) {
    decltype(&run_hash) runs[] = {run_hash, run_hashu, run_carve, run_placed, run_nan, run_shfl, run_carve4, run_rsqrt, run_sr, run_bytes, run_kept_bytes, run_upper, run_copied};
    runs[which](y, x, n);
}
