/*
Kernels of single elements, in several versions.
nvcc -O3 -lcublas elementwise.cu -o elementwise && ./elementwise 1
*/
#include <stdio.h>
#include <stdlib.h>
#include <cuda_runtime.h>
#include "common.h"

#define GELU_SCALING_FACTOR sqrtf(2.0f / M_PI)

void gelu_forward_cpu(float* out, const float* inp, int N) {
    for (int i = 0; i < N; i++) {
        float x = inp[i];
        float cube = 0.044715f * x * x * x;
        out[i] = 0.5f * x * (1.0f + tanhf(GELU_SCALING_FACTOR * (x + cube)));
    }
}

__global__ void gelu_forward_kernel1(floatX* out, const floatX* inp, int N) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N) {
        float xi = inp[i];
        float cube = 0.044715f * xi * xi * xi;
        out[i] = 0.5f * xi * (1.0f + tanhf(GELU_SCALING_FACTOR * (xi + cube)));
    }
}

// elementwise with packed loads and stores
__global__ void gelu_forward_kernel2(floatX* out, const floatX* inp, int N) {
    int i = (blockIdx.x * blockDim.x + threadIdx.x) * x128::size;
    if (i < N) {
        x128 packed_out;
        x128 packed_inp = load128cs(inp + i);
        for (int k = 0; k < packed_inp.size; ++k) {
            float xi = (float)packed_inp[k];
            float cube = 0.044715f * xi * xi * xi;
            packed_out[k] = (floatX)(0.5f * xi * (1.0f + tanhf(GELU_SCALING_FACTOR * (xi + cube))));
        }
        store128(out + i, packed_out);
    }
}

// through float4, and a copy of four floats as integers
__global__ void gelu_forward_kernel3(float* out, const float* inp, int N) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N / 4) {
        ((int4*)out)[i] = *(const int4*)&inp[4 * i];
        float4 v = reinterpret_cast<float4*>(out)[i];
        float x[4] = {v.x, v.y, v.z, v.w};
        #pragma unroll
        for (int k = 0; k < 4; k++) {
            float cube = 0.044715f * x[k] * x[k] * x[k];
            x[k] = 0.5f * x[k] * (1.0f + tanhf(GELU_SCALING_FACTOR * (x[k] + cube)));
        }
        reinterpret_cast<float4*>(out)[i] = make_float4(x[0], x[1], x[2], x[3]);
    }
}

// never used here: it looks into the numbers
__global__ void gelu_sign_kernel(unsigned* out, const float* inp, int N) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N) { out[i] = *(const unsigned*)&inp[i] >> 31; }
}

void gelu_forward1(floatX* out, const floatX* inp, int N, const int block_size) {
    NVTX_RANGE_FN();
    const int grid_size = ceil_div(N, block_size);
    gelu_forward_kernel1<<<grid_size, block_size>>>(out, inp, N);
    cudaCheck(cudaGetLastError());
}
void gelu_forward2(floatX* out, const floatX* inp, int N, const int block_size) {
    const int grid_size = ceil_div(N, (int) (block_size * x128::size));
    gelu_forward_kernel2<<<grid_size, block_size>>>(out, inp, N);
    cudaCheck(cudaGetLastError());
}
void gelu_forward3(float* out, const float* inp, int N, const int block_size) {
    const int grid_size = CEIL_DIV(N / 4, block_size);
    gelu_forward_kernel3<<<grid_size, block_size>>>(out, inp, N);
    cudaCheck(cudaGetLastError());
}

void gelu_forward(int kernel_num, floatX* out, const floatX* inp, int B, int T, int C, int block_size) {
    switch (kernel_num) {
        case 1: gelu_forward1(out, inp, B * T * C, block_size); break;
        case 2: gelu_forward2(out, inp, B * T * C, block_size); break;
#if !defined(ENABLE_BF16)
        case 3: gelu_forward3(out, inp, B * T * C, block_size); break;
#endif
        default: printf("Invalid kernel number\n"); exit(1);
    }
}

#ifdef ENABLE_BF16
// The device adds words: the other half gets a zero.
__device__ void atomicAddX(__nv_bfloat16* addr, __nv_bfloat16 val) {
    size_t at = reinterpret_cast<size_t>(addr);
    __nv_bfloat16 nothing = __ushort_as_bfloat16(0);
    __nv_bfloat162* word = reinterpret_cast<__nv_bfloat162*>(at & ~(size_t)3);
    atomicAdd(word, at & 2 ? __halves2bfloat162(nothing, val) : __halves2bfloat162(val, nothing));
}

__global__ void count_kernel(floatX* counts, int N) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAddX(&counts[i % N], (floatX)1.0f);
}

__global__ void exchange_kernel(float* out, floatX* two) {
    auto word = reinterpret_cast<__nv_bfloat162*>(two);
    __nv_bfloat162 before = atomicAdd(word, __halves2bfloat162(two[1], __ushort_as_bfloat16(0)));
    out[0] = (float)before.x, out[1] = (float)before.y, out[2] = (float)two[0];
}
#endif

int main(int argc, const char **argv) {
    setup_main();
    int B = 8, T = 1024, C = 768;
    float* out = (float*)malloc(B * T * C * sizeof(float));
    float* inp = make_random_float(B * T * C);
    int kernel_num = 1;
    if (argc > 1) { kernel_num = atoi(argv[1]); }
    gelu_forward_cpu(out, inp, B * T * C);
    floatX *d_out, *d_inp;
    cudaCheck(cudaMalloc(&d_out, B * T * C * sizeof(floatX)));
    cudaCheck(cudaMalloc(&d_inp, B * T * C * sizeof(floatX)));
    int block_sizes[] = {32, 64, 128, 256, 512, 1024};
    for (int j = 0; j < sizeof(block_sizes) / sizeof(int); j++) {
        gelu_forward(kernel_num, d_out, d_inp, B, T, C, block_sizes[j]);
        validate_result(d_out, out, "out", B * T * C, 1e-5f);
    }
    for (int j = 0; j < sizeof(block_sizes) / sizeof(int); j++) {
        float elapsed_time = benchmark_kernel(1000, gelu_forward, kernel_num, d_out, d_inp, B, T, C, block_sizes[j]);
        printf("block_size %4d | time %.4f ms\n", block_sizes[j], elapsed_time);
    }
    free(out);
    free(inp);
    cudaCheck(cudaFree(d_out));
    cudaCheck(cudaFree(d_inp));
    return 0;
}
