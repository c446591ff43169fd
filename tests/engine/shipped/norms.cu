/*
Normalisations, forward and backward, in several versions.
nvcc -O3 --use_fast_math norms.cu -o norms && ./norms 1
*/
#include "common.cuh"
namespace cg = cooperative_groups;

// naive: a thread a row
__global__ void layernorm_forward_kernel1(float* out, float* mean, float* rstd, const float* inp,
                                          const float* weight, const float* bias, int N, int C) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    float eps = 1e-5f;
    if (idx < N) {
        const float* x = inp + idx * C;
        float m = 0.0f;
        for (int i = 0; i < C; i++) m += x[i];
        m = m / C;
        float v = 0.0f;
        for (int i = 0; i < C; i++) {
            float xshift = x[i] - m;
            v += xshift * xshift;
        }
        v = v / C;
        float s = 1.0f / sqrtf(v + eps);
        float* out_idx = out + idx * C;
        for (int i = 0; i < C; i++) out_idx[i] = s * (x[i] - m) * weight[i] + bias[i];
        mean[idx] = m;
        rstd[idx] = s;
    }
}

// a warp a row, by cooperative groups
__global__ void layernorm_forward_kernel2(float* __restrict__ out, float* __restrict__ mean,
                                          float* __restrict__ rstd, const float* __restrict__ inp,
                                          const float* __restrict__ weight,
                                          const float* __restrict__ bias, int N, int C) {
    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<32> warp = cg::tiled_partition<32>(block);
    int idx = blockIdx.x * warp.meta_group_size() + warp.meta_group_rank();
    if (idx >= N) return;
    const float* x = inp + idx * C;
    float sum = 0.0f;
    for (int i = warp.thread_rank(); i < C; i += warp.size()) sum += x[i];
    sum = cg::reduce(warp, sum, cg::plus<float>{});
    float m = sum / C;
    if (warp.thread_rank() == 0 && mean != nullptr) __stcs(mean + idx, m);
    sum = 0.0f;
    for (int i = warp.thread_rank(); i < C; i += warp.size()) {
        float diff = x[i] - m;
        sum += diff * diff;
    }
    sum = cg::reduce(warp, sum, cg::plus<float>{});
    float s = rsqrtf(sum / C + 1e-5f);
    if (warp.thread_rank() == 0 && rstd != nullptr) __stcs(rstd + idx, s);
    float* o = out + idx * C;
    for (int c = warp.thread_rank(); c < C; c += warp.size()) {
        float n = s * (__ldcs(x + c) - m);
        __stcs(o + c, n * weight[c] + bias[c]);
    }
}

// a block a row, the row in dynamic shared memory, 128 bits at a time
__global__ void layernorm_forward_kernel3(float* __restrict__ out, float* __restrict__ mean,
                                          float* __restrict__ rstd, const float* __restrict__ inp,
                                          const float* __restrict__ weight,
                                          const float* __restrict__ bias, int N, int C) {
    extern __shared__ char params[];
    f128* s_in = reinterpret_cast<f128*>(params);
    int row = blockIdx.x;
    float sum = 0.0f;
    for (int c = threadIdx.x; c < C / (int)f128::size; c += blockDim.x) {
        const f128 data = load128(inp + row * C + c * f128::size);
        for (int k = 0; k < (int)f128::size; ++k) sum += data[k];
        s_in[c] = data;
    }
    float m = block_reduce_sum(sum) / C;
    float var = 0.0f;
    for (int c = threadIdx.x; c < C / (int)f128::size; c += blockDim.x) {
        const f128 data = s_in[c];
        for (int k = 0; k < (int)f128::size; ++k) var += (data[k] - m) * (data[k] - m);
    }
    float s = rsqrtf(block_reduce_sum(var) / C + 1e-5f);
    for (int c = threadIdx.x; c < C / (int)f128::size; c += blockDim.x) {
        const f128 data = s_in[c];
        const f128 w = load128(weight + c * f128::size), b = load128(bias + c * f128::size);
        f128 packed;
        for (int k = 0; k < (int)f128::size; ++k) packed[k] = s * (data[k] - m) * w[k] + b[k];
        store128(out + row * C + c * f128::size, packed);
    }
    if (threadIdx.x == 0) {
        mean[row] = m;
        rstd[row] = s;
    }
}

struct WelfordData {
    float mean, m2, count;
};
__device__ WelfordData welford_combine(WelfordData a, WelfordData b) {
    float count = a.count + b.count;
    if (count == 0.0f) return {0.0f, 0.0f, 0.0f};
    float delta = b.mean - a.mean, part = b.count / count;
    return {a.mean + delta * part, a.m2 + b.m2 + delta * delta * a.count * part, count};
}
// a warp a row, by Welford's sums
__global__ void layernorm_forward_kernel4(float* out, float* mean, float* rstd, const float* inp,
                                          const float* weight, const float* bias, int N, int C) {
    int row = blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= N) return;
    WelfordData wd = {0.0f, 0.0f, 0.0f};
    for (int c = threadIdx.x; c < C; c += 32) {
        float x = inp[row * C + c];
        wd.count += 1.0f;
        float delta = x - wd.mean;
        wd.mean += delta / wd.count;
        wd.m2 += delta * (x - wd.mean);
    }
#pragma unroll
    for (int mask = 16; mask > 0; mask /= 2) {
        WelfordData other = {__shfl_xor_sync(0xffffffff, wd.mean, mask),
                             __shfl_xor_sync(0xffffffff, wd.m2, mask),
                             __shfl_xor_sync(0xffffffff, wd.count, mask)};
        wd = welford_combine(wd, other);
    }
    float s = rsqrtf(wd.m2 / C + 1e-5f);
    for (int c = threadIdx.x; c < C; c += 32)
        out[row * C + c] = (inp[row * C + c] - wd.mean) * s * weight[c] + bias[c];
    if (threadIdx.x == 0) {
        mean[row] = wd.mean;
        rstd[row] = s;
    }
}

void layernorm_forward1(float* out, float* mean, float* rstd, const float* inp, const float* weight,
                        const float* bias, int B, int T, int C, const int block_size) {
    const int N = B * T;
    layernorm_forward_kernel1<<<CEIL_DIV(N, block_size), block_size>>>(out, mean, rstd, inp, weight, bias, N, C);
    CUDA_CHECK(cudaGetLastError());
}
void layernorm_forward2(float* out, float* mean, float* rstd, const float* inp, const float* weight,
                        const float* bias, int B, int T, int C, const int block_size) {
    assert(block_size % 32 == 0);
    const int N = B * T;
    const int grid_size = CEIL_DIV(N * 32, block_size);
    layernorm_forward_kernel2<<<grid_size, block_size>>>(out, mean, rstd, inp, weight, bias, N, C);
    CUDA_CHECK(cudaGetLastError());
}
void layernorm_forward3(float* out, float* mean, float* rstd, const float* inp, const float* weight,
                        const float* bias, int B, int T, int C, const int block_size) {
    const int N = B * T;
    layernorm_forward_kernel3<<<N, block_size, C * sizeof(float)>>>(out, mean, rstd, inp, weight, bias, N, C);
    CUDA_CHECK(cudaGetLastError());
}
void layernorm_forward4(float* out, float* mean, float* rstd, const float* inp, const float* weight,
                        const float* bias, int B, int T, int C, const int block_size) {
    const int N = B * T;
    dim3 block(32, block_size / 32);
    layernorm_forward_kernel4<<<CEIL_DIV(N, (int)block.y), block>>>(out, mean, rstd, inp, weight, bias, N, C);
    CUDA_CHECK(cudaGetLastError());
}
//@ case layernorm_forward1 layernorm_forward2 layernorm_forward3 layernorm_forward4
//@ call $(out, mean, rstd, inp, weight, bias, B, T, C, 64);
//@ sizes B=2 T=5 C=96
//@ in inp[B*T*C] weight[C] bias[C]
//@ out out[B*T*C] mean[B*T] rstd[B*T]
//@ ref layernorm_forward

// dinp a warp a row; dweight and dbias by atomics
__global__ void layernorm_backward_kernel1(float* dinp, float* dweight, float* dbias, const float* dout,
                                           const float* inp, const float* weight, const float* mean,
                                           const float* rstd, int N, int C) {
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= N) return;
    const float *dout_row = dout + row * C, *inp_row = inp + row * C;
    float* dinp_row = dinp + row * C;
    const float m = mean[row], s = rstd[row];
    float dnorm_mean = 0.0f, dnorm_norm_mean = 0.0f;
    for (int i = lane; i < C; i += 32) {
        float norm = (inp_row[i] - m) * s, dnorm = weight[i] * dout_row[i];
        dnorm_mean += dnorm;
        dnorm_norm_mean += dnorm * norm;
    }
    dnorm_mean = warp_reduce_sum(dnorm_mean) / C;
    dnorm_norm_mean = warp_reduce_sum(dnorm_norm_mean) / C;
    for (int i = lane; i < C; i += 32) {
        float norm = (inp_row[i] - m) * s, dnorm = weight[i] * dout_row[i];
        atomicAdd(&dbias[i], dout_row[i]);
        atomicAdd(&dweight[i], norm * dout_row[i]);
        dinp_row[i] += (dnorm - dnorm_mean - norm * dnorm_norm_mean) * s;
    }
}
// column sums in shared memory first, then one atomic a column and block
__global__ void layernorm_backward_kernel2(float* dinp, float* dweight, float* dbias, const float* dout,
                                           const float* inp, const float* weight, const float* mean,
                                           const float* rstd, int N, int C) {
    extern __shared__ float shared[];
    float *dbias_shared = shared, *dweight_shared = shared + C;
    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<32> warp = cg::tiled_partition<32>(block);
    for (int i = threadIdx.x; i < C; i += blockDim.x) dbias_shared[i] = dweight_shared[i] = 0.0f;
    __syncthreads();
    for (int row = blockIdx.x * warp.meta_group_size() + warp.meta_group_rank(); row < N;
         row += gridDim.x * warp.meta_group_size()) {
        const float m = mean[row], s = rstd[row];
        float a = 0.0f, b = 0.0f;
        for (int i = warp.thread_rank(); i < C; i += warp.size()) {
            float norm = (inp[row * C + i] - m) * s, dnorm = weight[i] * dout[row * C + i];
            a += dnorm;
            b += dnorm * norm;
        }
        a = cg::reduce(warp, a, cg::plus<float>{}) / C;
        b = cg::reduce(warp, b, cg::plus<float>{}) / C;
        for (int i = warp.thread_rank(); i < C; i += warp.size()) {
            float norm = (inp[row * C + i] - m) * s, dnorm = weight[i] * dout[row * C + i];
            atomicAdd(&dbias_shared[i], dout[row * C + i]);
            atomicAdd(&dweight_shared[i], norm * dout[row * C + i]);
            dinp[row * C + i] += (dnorm - a - norm * b) * s;
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < C; i += blockDim.x) {
        atomicAdd(&dbias[i], dbias_shared[i]);
        atomicAdd(&dweight[i], dweight_shared[i]);
    }
}
void layernorm_backward1(float* dinp, float* dweight, float* dbias, const float* dout, const float* inp,
                         const float* weight, const float* mean, const float* rstd, int B, int T, int C,
                         const int block_size) {
    layernorm_backward_kernel1<<<CEIL_DIV(B * T * 32, block_size), block_size>>>(
        dinp, dweight, dbias, dout, inp, weight, mean, rstd, B * T, C);
}
void layernorm_backward2(float* dinp, float* dweight, float* dbias, const float* dout, const float* inp,
                         const float* weight, const float* mean, const float* rstd, int B, int T, int C,
                         const int block_size) {
    layernorm_backward_kernel2<<<2, block_size, 2 * C * sizeof(float)>>>(
        dinp, dweight, dbias, dout, inp, weight, mean, rstd, B * T, C);
}
//@ case layernorm_backward1 layernorm_backward2
//@ call $(dinp, dweight, dbias, dout, inp, weight, mean, rstd, B, T, C, 64);
//@ sizes B=2 T=5 C=96
//@ in dout[B*T*C] inp[B*T*C] weight[C] mean[B*T] rstd[B*T]
//@ out dinp[B*T*C]=0 dweight[C]=0 dbias[C]=0
//@ ref layernorm_backward

template <typename T, int BLOCK_SIZE>
__global__ void rmsnorm_forward_kernel(T* __restrict__ out, const T* __restrict__ x,
                                       const T* __restrict__ weight, float* __restrict__ rms, int cols,
                                       float eps) {
    const int row = blockIdx.x;
    float sum = 0.0f;
    for (int c = threadIdx.x; c < cols; c += BLOCK_SIZE) {
        float v = static_cast<float>(x[row * cols + c]);
        sum += v * v;
    }
    __shared__ float scale;
    sum = block_reduce_sum(sum);
    if (threadIdx.x == 0) {
        scale = rsqrtf(sum / cols + eps);
        rms[row] = scale;
    }
    __syncthreads();
    for (int c = threadIdx.x; c < cols; c += BLOCK_SIZE)
        out[row * cols + c] =
            static_cast<T>(static_cast<float>(x[row * cols + c]) * scale * static_cast<float>(weight[c]));
}
template <typename T>
void launch_rmsnorm(T* out, const T* x, const T* weight, float* rms, int rows, int cols, float eps,
                    cudaStream_t stream) {
    rmsnorm_forward_kernel<T, 128><<<rows, 128, 0, stream>>>(out, x, weight, rms, cols, eps);
}
//@ case launch_rmsnorm
//@ call $<float>(out, x, weight, rms, rows, cols, 1e-6f, 0);
//@ sizes rows=6 cols=80
//@ in x[rows*cols] weight[cols]
//@ out out[rows*cols] rms[rows]
//@ ref rmsnorm_forward
//@ case launch_rmsnorm:bf16
//@ call launch_rmsnorm<__nv_bfloat16>(out, x, weight, rms, rows, cols, 1e-6f, 0);
//@ sizes rows=6 cols=80
//@ in x:bf16[rows*cols] weight:bf16[cols]
//@ out out:bf16[rows*cols] rms[rows]
//@ ref rmsnorm_forward
//@ tol 1e-2

__global__ void rmsnorm_backward_kernel(float* dx, float* dweight, const float* dout, const float* x,
                                        const float* weight, const float* rms, int rows, int cols) {
    int row = blockIdx.x;
    float s = rms[row], dot = 0.0f;
    for (int c = threadIdx.x; c < cols; c += blockDim.x)
        dot += dout[row * cols + c] * weight[c] * x[row * cols + c];
    dot = block_reduce_sum(dot);
    for (int c = threadIdx.x; c < cols; c += blockDim.x) {
        float xv = x[row * cols + c], g = dout[row * cols + c];
        dx[row * cols + c] = s * (g * weight[c] - xv * s * s * dot / cols);
        atomicAdd(dweight + c, g * xv * s);
    }
}
void rmsnorm_backward(float* dx, float* dweight, const float* dout, const float* x, const float* weight,
                      const float* rms, int rows, int cols, cudaStream_t stream) {
    CUDA_CHECK(cudaMemsetAsync(dweight, 0, cols * sizeof(float), stream));
    rmsnorm_backward_kernel<<<rows, 96, 0, stream>>>(dx, dweight, dout, x, weight, rms, rows, cols);
}
//@ case rmsnorm_backward
//@ call $(dx, dweight, dout, x, weight, rms, rows, cols, 0);
//@ sizes rows=6 cols=80
//@ in dout[rows*cols] x[rows*cols] weight[cols] rms[rows]
//@ out dx[rows*cols] dweight[cols]
//@ ref rmsnorm_backward

// residual and layer norm in one
__global__ void fused_residual_forward_kernel(float* residual, float* normed, float* mean, float* rstd,
                                              const float* inp1, const float* inp2, const float* weight,
                                              const float* bias, int N, int C) {
    constexpr float eps = 1e-5f;
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= N) return;
    residual += C * idx;
    normed += C * idx;
    inp1 += C * idx;
    inp2 += C * idx;
    float m = 0.0f;
    for (int c = 0; c < C; ++c) {
        float out = inp1[c] + inp2[c];
        m += out;
        residual[c] = out;
    }
    m = m / C;
    float v = 0.0f;
    for (int c = 0; c < C; c++) {
        float xshift = residual[c] - m;
        v += xshift * xshift;
    }
    float s = 1.0f / sqrtf(v / C + eps);
    for (int c = 0; c < C; c++) normed[c] = s * (residual[c] - m) * weight[c] + bias[c];
    mean[idx] = m;
    rstd[idx] = s;
}
void fused_residual_forward(float* residual, float* normed, float* mean, float* rstd, const float* inp1,
                            const float* inp2, const float* weight, const float* bias, int N, int C,
                            const int block_size) {
    fused_residual_forward_kernel<<<CEIL_DIV(N, block_size), block_size>>>(
        residual, normed, mean, rstd, inp1, inp2, weight, bias, N, C);
}
//@ case fused_residual_forward
//@ call $(residual, normed, mean, rstd, inp1, inp2, weight, bias, N, C, 32);
//@ sizes N=7 C=40
//@ in inp1[N*C] inp2[N*C] weight[C] bias[C]
//@ out residual[N*C] normed[N*C] mean[N] rstd[N]
//@ ref fused_residual_forward

// statistics of channels of images, batch norm for inference
__global__ void groupnorm_kernel(float* y, const float* x, const float* gamma, const float* beta, int C,
                                 int HW, int groups, float eps) {
    const int n = blockIdx.x / groups, g = blockIdx.x % groups, per = C / groups;
    const float* base = x + (n * C + g * per) * HW;
    float sum = 0.f, sq = 0.f;
    for (int i = threadIdx.x; i < per * HW; i += blockDim.x) {
        sum += base[i];
        sq += base[i] * base[i];
    }
    sum = block_reduce_sum(sum);
    sq = block_reduce_sum(sq);
    const float mu = sum / (per * HW), inv = rsqrtf(sq / (per * HW) - mu * mu + eps);
    for (int i = threadIdx.x; i < per * HW; i += blockDim.x) {
        const int c = g * per + i / HW;
        y[(n * C + g * per) * HW + i] = (base[i] - mu) * inv * gamma[c] + beta[c];
    }
}
void groupnorm(float* y, const float* x, const float* gamma, const float* beta, int N, int C, int HW,
               int groups, float eps) {
    groupnorm_kernel<<<N * groups, 64>>>(y, x, gamma, beta, C, HW, groups, eps);
}
//@ case groupnorm
//@ call $(y, x, gamma, beta, N, C, HW, 2, 1e-5f);
//@ sizes N=2 C=6 HW=20
//@ in x[N*C*HW] gamma[C] beta[C]
//@ out y[N*C*HW]
//@ ref groupnorm

int main(int argc, char** argv) {
    int version = argc > 1 ? atoi(argv[1]) : 1;
    printf("version %d\n", version);
    return 0;
}
