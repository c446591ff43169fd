#pragma once
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cassert>
#include <string>
#include <type_traits>
#include <cuda_runtime.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cooperative_groups.h>
enum class DType : uint8_t { FP32, FP16, BF16 };
inline size_t sizeof_dtype(DType type) {
    switch (type) {
        case DType::FP32: return sizeof(float);
        case DType::FP16: return sizeof(half);
        case DType::BF16: return sizeof(nv_bfloat16);
        default: exit(1);
    }
}
inline DType dtype_of(float* f) { return DType::FP32; }
inline DType dtype_of(nv_bfloat16* f) { return DType::BF16; }
inline DType dtype_of(half* f) { return DType::FP16; }
#if defined(USE_FP32)
typedef float floatX;
#else
typedef __nv_bfloat16 floatX;
#endif
template<class ElementType>
struct alignas(16) Packed128 {
    Packed128() = default;
    __device__ explicit Packed128(int4 bits) {
        static_assert(sizeof(bits) == sizeof(payload), "Size mismatch.");
        memcpy(&payload, &bits, sizeof(bits));
    }
    __device__ static Packed128 constant(ElementType value) {
        Packed128 result;
        for (int k = 0; k < size; ++k) result.payload[k] = value;
        return result;
    }
    __device__ static Packed128 zeros() { return constant(0.f); }
    __device__ ElementType& operator[](int index) { return payload[index]; }
    __device__ const ElementType& operator[](int index) const { return payload[index]; }
    __device__ int4 get_bits() const {
        int4 bits;
        static_assert(sizeof(bits) == sizeof(payload), "Size mismatch.");
        memcpy(&bits, &payload, sizeof(bits));
        return bits;
    }
    static constexpr const size_t size = sizeof(int4) / sizeof(ElementType);
    ElementType payload[size];
};
template<class E> __device__ Packed128<E> load128(const E* address) { return Packed128<E>{*reinterpret_cast<const int4*>(address)}; }
template<class E> __device__ void store128(E* target, Packed128<E> value) { *reinterpret_cast<int4*>(target) = value.get_bits(); }
template<class E> __device__ void store128cs(E* target, Packed128<E> value) { __stcs(reinterpret_cast<int4*>(target), value.get_bits()); }
typedef Packed128<float> f128;
typedef Packed128<floatX> x128;
template<typename Td, typename Ts> __device__ Td cast_value(Ts val);
template<> __device__ float cast_value<float, float>(float val) { return val; }
template<> __device__ float cast_value<float, half>(half val) { return __half2float(val); }
template<> __device__ float cast_value<float, __nv_bfloat16>(__nv_bfloat16 val) { return __bfloat162float(val); }
__device__ __host__ constexpr unsigned int SquirrelNoise5(unsigned int positionX, unsigned int seed) {
    unsigned int mangledBits = positionX * 0xd2a80a3fu; mangledBits += seed; mangledBits ^= (mangledBits >> 9);
    mangledBits += 0xa884f197u; mangledBits ^= (mangledBits >> 11); mangledBits *= 0x6C736F4Bu; return mangledBits;
}
__device__ __forceinline__ void stochastic_rounding(float in, __nv_bfloat16 *out, unsigned int seed) {
    unsigned int random = SquirrelNoise5(threadIdx.x, seed);
    unsigned int threshold = random & 0xFFFF;
    unsigned int float_bits = __float_as_uint(in);
    unsigned int rounded_bits = float_bits & 0x0000FFFF;
    float_bits = (rounded_bits > threshold) ? (float_bits | 0xFFFF) : (float_bits & ~0xFFFF);
    *out = __float2bfloat16_rn(__uint_as_float(float_bits));
}
__device__ __forceinline__ void stochastic_rounding(float in, float *out, unsigned int random) { *out = in; }
template<class T> __global__ void copy_and_cast_kernel(T* dst, const float* src, size_t n) {
    size_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) dst[i] = (T)src[i];
}
__device__ void atomicStochasticAdd(__nv_bfloat16* address, float val0, unsigned int seed) {
    static_assert(sizeof(*address) == 2, "two bytes");
    atomicAdd(address, (__nv_bfloat16)val0);
}
void check_device_alloc(void** out, size_t bytes, const char *file, int line) {
    if (cudaMalloc(out, bytes) != cudaSuccess) exit(1);
}
#define cudaMallocCheck(p, n) check_device_alloc((void**)(p), n, __FILE__, __LINE__)
void device_to_file(FILE* dest, void* src, size_t num_bytes, size_t buffer_size) {
    char* buffer; cudaMallocHost(&buffer, 2 * buffer_size);
    cudaMemcpy(buffer, src, num_bytes, cudaMemcpyDeviceToHost);
    fwrite(buffer, 1, num_bytes, dest);
}
