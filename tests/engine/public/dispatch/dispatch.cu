// One function in several versions: the absolute value.
#include <stdio.h>
#include "bits.cuh"

__global__ void abs_kernel0(float* out, const float* inp, int N) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N) { out[i] = fabsf(inp[i]); }
}

__global__ void abs_kernel1(float* out, const float* inp, int N) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N) { out[i] = __uint_as_float(__float_as_uint(inp[i]) & 0x7fffffff); }
}

__global__ void abs_kernel2(float* out, const float* inp, int N) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N) { ((unsigned*)out)[i] = *(const unsigned*)&inp[i] & 0x7fffffff; }
}

__device__ float by_union(float x) {
    union { float number; unsigned bits; } both;
    both.number = x;
    both.bits &= 0x7fffffff;
    return both.number;
}

__global__ void abs_kernel3(float* out, const float* inp, int N) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N) { out[i] = by_union(inp[i]); }
}

__global__ void abs_kernel4(float* out, const float* inp, int N) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N) { out[i] = SIGN_OF(inp[i]) ? -inp[i] : inp[i]; }
}

__global__ void abs_kernel5(float* out, const float* inp, int N) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N) { out[i] = Magnitude{inp[i]}.get(); }
}

__global__ void abs_kernel6(float* out, const float* inp, int N) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N / 4) {
        int4 four = reinterpret_cast<const int4*>(inp)[i];
        four.x &= 0x7fffffff; four.y &= 0x7fffffff; four.z &= 0x7fffffff; four.w &= 0x7fffffff;
        reinterpret_cast<int4*>(out)[i] = four;
    }
}

template <bool Bits>
__global__ void abs_kernel7(float* out, const float* inp, int N) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= N) return;
    if (Bits) {
        out[i] = __int_as_float(__float_as_int(inp[i]) & 0x7fffffff);
    } else {
        out[i] = inp[i] < 0 ? -inp[i] : inp[i];
    }
}

__global__ void abs_kernel9(float* out, const float* inp, int N) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N) { out[i] = inp[i] * (1.f - 2.f * (BITS_OF(inp[i]) >> 31)); }
}

#ifdef WITH_UNION
union Word {
    float as_numbers[2];
    unsigned as_bits;
};

__global__ void abs_kernel10(float* out, const float* inp, int N) {
    Word word;
    word.as_numbers[0] = inp[0];
    out[0] = word.as_bits;
}
#endif

void abs_forward2(float* out, const float* inp, int N) {
    abs_kernel2<<<(N + 63) / 64, 64>>>(out, inp, N);
}

void abs_forward(int version, float* out, const float* inp, int N) {
    int blocks = (N + 63) / 64;
    switch (version) {
        case 0: abs_kernel0<<<blocks, 64>>>(out, inp, N); break;
        case 1: abs_kernel1<<<blocks, 64>>>(out, inp, N); break;
        case 2: abs_forward2(out, inp, N); break;
        case 3: abs_kernel3<<<blocks, 64>>>(out, inp, N); break;
        case 4: abs_kernel4<<<blocks, 64>>>(out, inp, N); break;
        case 5: abs_kernel5<<<blocks, 64>>>(out, inp, N); break;
        case 6: abs_kernel6<<<blocks, 64>>>(out, inp, N); break;
        case 7: abs_kernel7<true><<<blocks, 64>>>(out, inp, N); break;
        case 8: abs_kernel7<false><<<blocks, 64>>>(out, inp, N); break;
        case 9: abs_kernel9<<<blocks, 64>>>(out, inp, N); break;
        default: printf("Invalid version\n");
    }
}
