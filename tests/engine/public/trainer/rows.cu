/*
Kernels of rows: softmax and layer norm, in several versions.
nvcc -O3 --use_fast_math rows.cu -o rows
*/
#include <assert.h>
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include "common.h"

// turn on bf16 as default, done up here for now
namespace cg = cooperative_groups;

__device__ float warpReduceSum(float val) {
    for (int offset = 16; offset > 0; offset /= 2) { val += __shfl_xor_sync(0xFFFFFFFF, val, offset); }
    return val;
}
__device__ float warpReduceMax(float val) {
    for (int offset = 16; offset > 0; offset /= 2) { val = fmaxf(val, __shfl_xor_sync(0xFFFFFFFF, val, offset)); }
    return val;
}
template<float (*warp_reduction)(float)>
__device__ float blockReduce(float val, float out_of_bounds = 0.0f) {
    __shared__ float shared_val[WARP_SIZE];
    const int lane_id = threadIdx.x % WARP_SIZE;
    const int warp_id = threadIdx.x / WARP_SIZE;
    const int num_warps = blockDim.x / WARP_SIZE;
    float warp_val = warp_reduction(val);
    if (lane_id == 0) { shared_val[warp_id] = warp_val; }
    __syncthreads();
    warp_val = (lane_id < num_warps) ? shared_val[lane_id] : out_of_bounds;
    return warp_reduction(warp_val);
}

// a row a thread
__global__ void softmax_forward_kernel1(float* out, const float* inp, int N, int C) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N) {
        const float* inp_row = inp + i * C;
        float* out_row = out + i * C;
        float maxval = -INFINITY;
        for (int j = 0; j < C; j++) { if (inp_row[j] > maxval) { maxval = inp_row[j]; } }
        double sum = 0.0;
        for (int j = 0; j < C; j++) {
            out_row[j] = expf(inp_row[j] - maxval);
            sum += out_row[j];
        }
        for (int j = 0; j < C; j++) { out_row[j] /= (float)sum; }
    }
}
// a row a warp, by cooperative groups
__global__ void softmax_forward_kernel2(float* out, const float* inp, int N, int C) {
    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<32> warp = cg::tiled_partition<32>(block);
    int idx = blockIdx.x * warp.meta_group_size() + warp.meta_group_rank();
    if (idx >= N) { return; }
    const float* x = inp + idx * C;
    float maxval = -INFINITY;
    for (int i = warp.thread_rank(); i < C; i += warp.size()) { maxval = fmaxf(maxval, x[i]); }
    maxval = cg::reduce(warp, maxval, cg::greater<float>{});
    float sum = 0.0f;
    for (int i = warp.thread_rank(); i < C; i += warp.size()) { sum += expf(x[i] - maxval); }
    sum = cg::reduce(warp, sum, cg::plus<float>{});
    for (int i = warp.thread_rank(); i < C; i += warp.size()) {
        __stcs(out + idx * C + i, expf(__ldcs(x + i) - maxval) / sum);
    }
}
// a row a block
template <int BLOCK_SIZE = 128>
__global__ void __launch_bounds__(1024) softmax_forward_kernel3(float* __restrict__ out, const float* __restrict__ inp, int N, int C) {
    int idx = blockIdx.x;
    const float* x = inp + idx * C;
    float maxval = -INFINITY;
    for (int i = threadIdx.x; i < C; i += BLOCK_SIZE) { maxval = fmaxf(maxval, x[i]); }
    maxval = blockReduce<warpReduceMax>(maxval, -INFINITY);
    __syncthreads();
    float sum = 0.0f;
    for (int i = threadIdx.x; i < C; i += BLOCK_SIZE) { sum += expf(x[i] - maxval); }
    sum = blockReduce<warpReduceSum>(sum);
    for (int i = threadIdx.x; i < C; i += BLOCK_SIZE) { out[idx * C + i] = expf(x[i] - maxval) / sum; }
}
// packed, with dynamic shared memory for the row
__global__ void softmax_forward_kernel4(float* out, const float* inp, int N, int C) {
    extern __shared__ char params[];
    f128* row = reinterpret_cast<f128*>(params);
    const int lane = threadIdx.x, width = C / f128::size;
    const float* x = inp + blockIdx.x * C;
    float maxval = -INFINITY;
    for (int c = lane; c < width; c += WARP_SIZE) {
        row[c] = load128(x + c * f128::size);
        for (int k = 0; k < f128::size; k++) { maxval = fmaxf(maxval, row[c][k]); }
    }
    maxval = warpReduceMax(maxval);
    float sum = 0.0f;
    for (int c = lane; c < width; c += WARP_SIZE) {
        for (int k = 0; k < f128::size; k++) {
            row[c][k] = expf(row[c][k] - maxval);
            sum += row[c][k];
        }
    }
    const float norm = 1.0f / warpReduceSum(sum);
    for (int c = lane; c < width; c += WARP_SIZE) {
        for (int k = 0; k < f128::size; k++) { row[c][k] *= norm; }
        store128cs(out + blockIdx.x * C + c * f128::size, row[c]);
    }
}

void softmax_forward(int kernel_num, float* out, const float* inp, int N, int C, int block_size) {
    switch (kernel_num) {
        case 1: softmax_forward_kernel1 << <CEIL_DIV(N, block_size), block_size>> >(out, inp, N, C); break;
        case 2: softmax_forward_kernel2<<<CEIL_DIV(N * 32, block_size), block_size>>>(out, inp, N, C); break;
        case 3: softmax_forward_kernel3<<<N, 128>>>(out, inp, N, C); break;
        case 4: {
            size_t smem = C * sizeof(float);
            auto status = cudaFuncSetAttribute(softmax_forward_kernel4, cudaFuncAttributeMaxDynamicSharedMemorySize, smem);
            cudaGetLastError();
            assert(status == cudaSuccess);
            softmax_forward_kernel4<<<N, WARP_SIZE, smem>>>(out, inp, N, C);
            break;
        }
        default: printf("Invalid kernel number\n"); exit(1);
    }
    cudaCheck(cudaGetLastError());
}

__global__ void layernorm_forward_kernel1(float* out, float* mean, float* rstd, const float* inp, const float* weight, const float* bias, int N, int C) {
    int lane_id = threadIdx.x % WARP_SIZE;
    int warp_id = threadIdx.x / WARP_SIZE;
    int num_warps = blockDim.x / WARP_SIZE;
    int idx = blockIdx.x * num_warps + warp_id;
    if (idx >= N) { return; }
    const float* x = inp + idx * C;
    float sum = 0.0f;
    for (int i = lane_id; i < C; i += WARP_SIZE) { sum += (float)x[i]; }
    sum = warpReduceSum(sum);
    float m = sum / C;
    if (lane_id == 0 && mean != nullptr) { __stcs(mean + idx, m); }
    sum = 0.0f;
    for (int i = lane_id; i < C; i += WARP_SIZE) {
        float diff = (float)x[i] - m;
        sum += diff * diff;
    }
    sum = warpReduceSum(sum);
    float s = rsqrtf(sum / C + 1e-5f);
    if (lane_id == 0 && rstd != nullptr) { __stcs(rstd + idx, s); }
    float* o = out + idx * C;
    for (int c = lane_id; c < C; c += WARP_SIZE) {
        float n = s * ((float)__ldcs(x + c) - m);
        __stcs(o + c, n * (float)weight[c] + (float)bias[c]);
    }
}
void layernorm_forward(float* out, const float* inp, const float* weight, const float* bias, int N, int C) {
    float *mean, *rstd;
    cudaCheck(cudaMallocAsync(&mean, N * sizeof(float), 0));
    cudaCheck(cudaMallocAsync(&rstd, N * sizeof(float), 0));
    layernorm_forward_kernel1<<<CEIL_DIV(N * 32, 256), 256>>>(out, mean, rstd, inp, weight, bias, N, C);
    cudaCheck(cudaFreeAsync(mean, 0));
    cudaCheck(cudaFreeAsync(rstd, 0));
}

int main(int argc, char **argv) { return 0; }
