// Kernels in the idioms of public trainers and libraries. Each group has a namespace; host entry points are extern "C".
#include <cuda_runtime.h>
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <algorithm>
#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>

#define CEIL_DIV(M, N) (((M) + (N) - 1) / (N))
#define WARP_SIZE 32
#define CUDA_1D_KERNEL_LOOP(i, n) \
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < (n); i += blockDim.x * gridDim.x)

#define CUDA_CHECK(call)                                                                              \
    do {                                                                                              \
        cudaError_t err_ = (call);                                                                    \
        if (err_ != cudaSuccess) {                                                                    \
            printf("[CUDA ERROR] at %s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(err_));      \
            exit(EXIT_FAILURE);                                                                       \
        }                                                                                             \
    } while (0)

// ---------------------------------------------------------------------------------------------------------------------
namespace llmc {
namespace cg = cooperative_groups;

__device__ float warp_sum(float val) {
    for (int offset = 16; offset > 0; offset /= 2) {
        val += __shfl_xor_sync(0xFFFFFFFF, val, offset);
    }
    return val;
}

// one warp per row
__global__ void layernorm_forward_kernel3(float* __restrict__ out, float* __restrict__ mean, float* __restrict__ rstd,
                                          const float* __restrict__ inp, const float* __restrict__ weight,
                                          const float* __restrict__ bias, int N, int C) {
    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<32> warp = cg::tiled_partition<32>(block);
    int idx = blockIdx.x * warp.meta_group_size() + warp.meta_group_rank();
    if (idx >= N) {
        return;
    }

    // the row of input that this group of threads is responsible for
    const float* x = inp + idx * C;

    // mean
    float sum = 0.0f;
    for (int i = warp.thread_rank(); i < C; i += warp.size()) {
        sum += x[i];
    }
    sum = cg::reduce(warp, sum, cg::plus<float>{});
    float m = sum / C;
    if (warp.thread_rank() == 0 && mean != nullptr) {
        __stcs(mean + idx, m);
    }

    // rstd
    sum = 0.0f;
    for (int i = warp.thread_rank(); i < C; i += warp.size()) {
        float diff = x[i] - m;
        sum += diff * diff;
    }
    sum = cg::reduce(warp, sum, cg::plus<float>{});
    float s = rsqrtf(sum / C + 1e-5f);
    if (warp.thread_rank() == 0 && rstd != nullptr) {
        __stcs(rstd + idx, s);
    }

    // final normalization and scaling by weight/bias
    float* o = out + idx * C;
    for (int c = warp.thread_rank(); c < C; c += warp.size()) {
        // load and store using the .cs "streaming" hint to the compiler
        float n = s * (__ldcs(x + c) - m);
        __stcs(o + c, n * weight[c] + bias[c]);
    }
}

// one warp per row, dweight and dbias in shared memory first
__global__ void layernorm_backward_kernel2(float* dinp, float* dweight, float* dbias, const float* dout,
                                           const float* inp, const float* weight, const float* mean,
                                           const float* rstd, int N, int C) {
    extern __shared__ float shared[]; // size = 2 * C
    float* dbias_shared = shared;
    float* dweight_shared = shared + C;
    for (int i = threadIdx.x; i < C; i += blockDim.x) {
        dbias_shared[i] = 0.0f;
        dweight_shared[i] = 0.0f;
    }
    __syncthreads();

    int warp_id = threadIdx.x / WARP_SIZE;
    int lane = threadIdx.x % WARP_SIZE;
    int warps_per_block = blockDim.x / WARP_SIZE;
    for (int idx = blockIdx.x * warps_per_block + warp_id; idx < N; idx += gridDim.x * warps_per_block) {
        const float* dout_bt = dout + idx * C;
        const float* inp_bt = inp + idx * C;
        float* dinp_bt = dinp + idx * C;
        float mean_bt = mean[idx];
        float rstd_bt = rstd[idx];

        // first: two reduce operations
        float dnorm_mean = 0.0f;
        float dnorm_norm_mean = 0.0f;
        for (int i = lane; i < C; i += WARP_SIZE) {
            float norm_bti = (inp_bt[i] - mean_bt) * rstd_bt;
            float dnorm_i = weight[i] * dout_bt[i];
            dnorm_mean += dnorm_i;
            dnorm_norm_mean += dnorm_i * norm_bti;
        }
        dnorm_mean = warp_sum(dnorm_mean) / C;
        dnorm_norm_mean = warp_sum(dnorm_norm_mean) / C;

        // now iterate again and accumulate all the gradients
        for (int i = lane; i < C; i += WARP_SIZE) {
            float dout_i = __ldcs(&dout_bt[i]);
            float norm_bti = (__ldcs(&inp_bt[i]) - mean_bt) * rstd_bt;
            float dnorm_i = weight[i] * dout_i;
            atomicAdd(&dbias_shared[i], dout_i);
            atomicAdd(&dweight_shared[i], norm_bti * dout_i);
            float dval = 0.0f;
            dval += dnorm_i;                    // term 1
            dval -= dnorm_mean;                 // term 2
            dval -= norm_bti * dnorm_norm_mean; // term 3
            dval *= rstd_bt;                    // final scale
            dinp_bt[i] = dval;
        }
    }
    __syncthreads();

    // write to global memory
    for (int i = threadIdx.x; i < C; i += blockDim.x) {
        atomicAdd(&dbias[i], dbias_shared[i]);
        atomicAdd(&dweight[i], dweight_shared[i]);
    }
}

struct __align__(8) SumMax {
    float maxval;
    float sum;
};

__device__ __forceinline__ SumMax reduce_sum_max_op(SumMax a, SumMax b) {
    bool a_bigger = (a.maxval > b.maxval);
    SumMax bigger_m = a_bigger ? a : b;
    SumMax smaller_m = a_bigger ? b : a;
    SumMax res;
    res.maxval = bigger_m.maxval;
    res.sum = bigger_m.sum + smaller_m.sum * expf(smaller_m.maxval - bigger_m.maxval);
    return res;
}

__global__ void softmax_forward_online_kernel2(float* out, const float* inp, int N, int C) {
    // online softmax, one warp per row
    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<32> warp = cg::tiled_partition<32>(block);
    int idx = blockIdx.x * warp.meta_group_size() + warp.meta_group_rank();
    if (idx >= N) {
        return;
    }
    const float* x = inp + idx * C;

    SumMax sm_partial;
    sm_partial.maxval = -INFINITY;
    sm_partial.sum = 0.0f;
    for (int i = warp.thread_rank(); i < C; i += warp.size()) {
        float v = x[i];
        float old = sm_partial.maxval;
        sm_partial.maxval = fmaxf(old, v);
        sm_partial.sum = sm_partial.sum * expf(old - sm_partial.maxval) + expf(v - sm_partial.maxval);
    }
    SumMax sm_total = cg::reduce(warp, sm_partial, reduce_sum_max_op);

    for (int i = warp.thread_rank(); i < C; i += warp.size()) {
        __stcs(out + idx * C + i, expf(__ldcs(x + i) - sm_total.maxval) / sm_total.sum);
    }
}

struct SoftmaxParams {
    float Scale;
    float Offset;
};

__device__ float blockReduceMax(float v) {
    __shared__ float shared[32];
    int lane = threadIdx.x % 32, wid = threadIdx.x / 32;
    for (int o = 16; o > 0; o >>= 1) v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, o));
    if (lane == 0) shared[wid] = v;
    __syncthreads();
    v = lane < blockDim.x / 32 ? shared[lane] : -INFINITY;
    for (int o = 16; o > 0; o >>= 1) v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, o));
    __syncthreads();
    return v;
}

__device__ float blockReduceSum(float v) {
    __shared__ float shared[32];
    int lane = threadIdx.x % 32, wid = threadIdx.x / 32;
    v = warp_sum(v);
    if (lane == 0) shared[wid] = v;
    __syncthreads();
    v = lane < blockDim.x / 32 ? shared[lane] : 0.0f;
    v = warp_sum(v);
    __syncthreads();
    return v;
}

__device__ SoftmaxParams prepare_softmax_blockwide(int64_t idx, const float* inp, int V, int P) {
    const float4* x4 = reinterpret_cast<const float4*>(inp + idx * P);
    float thread_maxval = -INFINITY;
    float thread_sumval = 0.0f;
    // backwards, so that the second pass finds the first elements in the cache
    for (int i = CEIL_DIV(V, 4) + threadIdx.x - blockDim.x; i >= 0; i -= blockDim.x) {
        float4 v4 = x4[i];
        float vals[4] = {v4.x, v4.y, v4.z, v4.w};
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            if (i * 4 + k >= V) {
                continue;
            }
            float old_maxval = thread_maxval;
            thread_maxval = fmaxf(thread_maxval, vals[k]);
            thread_sumval *= expf((old_maxval - thread_maxval));
            thread_sumval += expf(vals[k] - thread_maxval);
        }
    }
    float block_maxval = blockReduceMax(thread_maxval);
    thread_sumval *= expf(thread_maxval - block_maxval);
    float block_sumval = blockReduceSum(thread_sumval);
    return SoftmaxParams{1.f / block_sumval, block_maxval};
}

__global__ void __launch_bounds__(1024)
fused_classifier_kernel3(float* dlogits, float* losses, const float* logits, const float* dlosses, const int* targets,
                         int N, int V, int P) {
    int64_t idx = gridDim.x - (blockIdx.x + 1); // reverse order for cache hits on the matmul's output
    int ix = targets[idx];

    SoftmaxParams sp = prepare_softmax_blockwide(idx, logits, V, P);

    if (threadIdx.x == 0) {
        float prob = expf(logits[idx * P + ix] - sp.Offset) * sp.Scale;
        losses[idx] = -logf(prob);
    }

    float dloss = dlosses != NULL ? dlosses[idx] : 1.0f / N;
    const float4* logits4 = reinterpret_cast<const float4*>(logits + idx * P);
    for (int i = threadIdx.x; i < CEIL_DIV(V, 4); i += blockDim.x) {
        float4 v4 = __ldcs(&logits4[i]);
        float vals[4] = {v4.x, v4.y, v4.z, v4.w};
        float4 g;
        float* grads = reinterpret_cast<float*>(&g);
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            int element = i * 4 + k;
            float prob = expf(vals[k] - sp.Offset) * sp.Scale;
            prob = (element < V) ? prob : 0.0f;
            float indicator = (element == ix) ? 1.0f : 0.0f;
            grads[k] = (prob - indicator) * dloss;
        }
        __stcs(reinterpret_cast<float4*>(dlogits + idx * P) + i, g);
    }
}

#define GELU_SCALING_FACTOR sqrtf(2.0f / M_PI)
__global__ void gelu_forward_kernel(float* out, const float* inp, int N) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N) {
        float xi = inp[i];
        float cube = 0.044715f * xi * xi * xi;
        out[i] = 0.5f * xi * (1.0f + tanhf(GELU_SCALING_FACTOR * (xi + cube)));
    }
}

__global__ void gelu_backward_kernel(float* dinp, const float* inp, const float* dout, const int N) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N) {
        float x = inp[i];
        float cube = 0.044715f * x * x * x;
        float tanh_arg = GELU_SCALING_FACTOR * (x + cube);
        float tanh_out = tanhf(tanh_arg);
        float coshf_out = coshf(tanh_arg);
        float sech_out = 1.0f / (coshf_out * coshf_out);
        float local_grad = 0.5f * (1.0f + tanh_out) +
                           x * 0.5f * sech_out * GELU_SCALING_FACTOR * (1.0f + 3.0f * 0.044715f * x * x);
        dinp[i] = local_grad * dout[i];
    }
}

__device__ inline float4 add_float4(const float4& a, const float4& b) {
    return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

__global__ void encoder_forward_kernel3(float4* out, const int* inp, const float4* wte, const float4* wpe, int BT,
                                        int T, int C) {
    int C4 = C / 4;
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    int N = BT * C4;
    if (idx < N) {
        int bt = idx / C4;
        int t = bt % T;
        int c4 = idx % C4;
        int ix = inp[bt];
        out[bt * C4 + c4] = add_float4(wte[ix * C4 + c4], wpe[t * C4 + c4]);
    }
}

// really bad naive kernel with atomicAdd
__global__ void encoder_backward_kernel(float* dwte, float* dwpe, const float* dout, const int* inp, int BT, int T,
                                        int C) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    int N = BT * C;

    if (idx < N) {
        int bt = idx / C;
        int t = bt % T;
        int c = idx % C;

        int ix = inp[bt];

        const float* dout_btc = dout + bt * C + c;
        float* dwte_ix = dwte + ix * C + c;
        float* dwpe_tc = dwpe + t * C + c;

        atomicAdd(dwte_ix, *dout_btc);
        atomicAdd(dwpe_tc, *dout_btc);
    }
}

// block_size 512 -> 16 warps, each block handles 32 columns
__global__ void matmul_backward_bias_kernel4(float* dbias, const float* dout, int BT, int OC) {
    extern __shared__ float smem[]; // of size block_size
    const int warp_id = threadIdx.x / warpSize;
    const int lane_id = threadIdx.x % warpSize;
    const int tl = blockIdx.x * warpSize; // pointer to the start column for this block
    const int vstep = blockDim.x / warpSize;

    const float* dout_col = dout + tl + lane_id;
    float dout_sum = 0.0f;
    for (int row = warp_id; row < BT; row += vstep) {
        dout_sum += dout_col[row * OC];
    }
    smem[lane_id + warp_id * warpSize] = dout_sum;
    __syncthreads();

    // warp_id 0 reduces the shared memory column-wise, linearly
    dout_sum = 0.0f;
    if (warp_id == 0) {
        for (int j = 0; j < vstep; j++) {
            dout_sum += smem[lane_id + j * warpSize];
        }
        dbias[tl + lane_id] += dout_sum;
    }
}

__device__ inline float lerp(float start, float end, float weight) {
    return fma(weight, end, fma(-weight, start, start));
}

__global__ void adamw_kernel2(float* params_memory, const float* grads_memory, float* m_memory, float* v_memory,
                              long num_parameters, float learning_rate, float beta1, float beta2,
                              float beta1_correction, float beta2_correction, float eps, float weight_decay) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= num_parameters) return; // guard
    float grad = grads_memory[i];
    float m = m_memory[i];
    float v = v_memory[i];
    // update the first moment (momentum)
    m = lerp(grad, m, beta1);
    m_memory[i] = m;
    // update the second moment (RMSprop)
    v = lerp(grad * grad, v, beta2);
    v_memory[i] = v;
    m /= beta1_correction; // m_hat
    v /= beta2_correction; // v_hat
    params_memory[i] -= learning_rate * (m / (sqrtf(v) + eps) + weight_decay * params_memory[i]);
}

__global__ void global_norm_squared_kernel(float* out, const float* data, size_t count) {
    // grid-stride loop, then warp and block reductions, then one atomicAdd a block
    __shared__ float block_result[32];
    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<32> warp = cg::tiled_partition<32>(block);
    size_t index = threadIdx.x + blockDim.x * blockIdx.x;
    size_t grid_width = blockDim.x * gridDim.x;
    float accumulator = 0.f;
    for (size_t i = index; i < count; i += grid_width) {
        accumulator += data[i] * data[i];
    }
    float warp_result = cg::reduce(warp, accumulator, cg::plus<float>{});
    if (warp.thread_rank() == 0) block_result[warp.meta_group_rank()] = warp_result;
    block.sync();
    if (warp.meta_group_rank() == 0) {
        float gather = warp.thread_rank() < warp.meta_group_size() ? block_result[warp.thread_rank()] : 0.f;
        float block_sum = cg::reduce(warp, gather, cg::plus<float>{});
        if (warp.thread_rank() == 0) {
            atomicAdd(out, block_sum);
        }
    }
}

// naive attention: three kernels. inp is (B, T, 3, NH, HS)
__global__ void attention_query_key_kernel1(float* preatt, const float* inp, int B, int T, int C, int NH) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    int total_threads = B * NH * T * T;

    if (idx < total_threads) {
        int t2 = idx % T;
        int t = (idx / T) % T;
        if (t2 > t) {
            // autoregressive mask
            preatt[idx] = -INFINITY;
            return;
        }
        int h = (idx / (T * T)) % NH;
        int b = idx / (NH * T * T);

        int C3 = C * 3;
        int hs = C / NH; // head size
        const float* query_t = inp + b * T * C3 + t * C3 + h * hs;
        const float* key_t2 = inp + b * T * C3 + t2 * C3 + h * hs + C; // +C because it's key

        // (query_t) dot (key_t2)
        float val = 0.0f;
        for (int i = 0; i < hs; i++) {
            val += query_t[i] * key_t2[i];
        }
        val *= 1.0 / sqrtf(hs);

        preatt[idx] = val;
    }
}

__global__ void attention_softmax_kernel1(float* att, const float* preatt, int B, int T, int NH) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    int total_threads = B * T * NH;

    if (idx < total_threads) {
        int h = idx % NH;
        int t = (idx / NH) % T;
        int b = idx / (NH * T);

        const float* preatt_bth = preatt + b * NH * T * T + h * T * T + t * T;
        float* att_bth = att + b * NH * T * T + h * T * T + t * T;

        // find maxval
        float maxval = -10000.0f;
        for (int t2 = 0; t2 <= t; t2++) {
            if (preatt_bth[t2] > maxval) {
                maxval = preatt_bth[t2];
            }
        }

        // calculate the exp and keep track of sum
        float expsum = 0.0f;
        for (int t2 = 0; t2 <= t; t2++) {
            float expv = expf(preatt_bth[t2] - maxval);
            expsum += expv;
            att_bth[t2] = expv;
        }
        float expsum_inv = expsum == 0.0f ? 0.0f : 1.0f / expsum;

        // normalize to get the softmax
        for (int t2 = 0; t2 < T; t2++) {
            if (t2 <= t) {
                att_bth[t2] *= expsum_inv;
            } else {
                // causal attention mask. not strictly necessary to set to zero here
                att_bth[t2] = 0.0f;
            }
        }
    }
}

__global__ void attention_value_kernel1(float* out, const float* att, const float* inp, int B, int T, int C, int NH) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    int total_threads = B * T * NH;

    if (idx < total_threads) {
        int h = idx % NH;
        int t = (idx / NH) % T;
        int b = idx / (NH * T);

        int C3 = C * 3;
        int hs = C / NH; // head size

        float* out_bth = out + b * T * C + t * C + h * hs;
        const float* att_bth = att + b * NH * T * T + h * T * T + t * T;

        for (int i = 0; i < hs; i++) {
            out_bth[i] = 0.0f;
        }
        for (int t2 = 0; t2 <= t; t2++) {
            const float* value_t2 = inp + b * T * C3 + t2 * C3 + h * hs + C * 2; // +C*2 because it's value
            float att_btht2 = att_bth[t2];
            for (int i = 0; i < hs; i++) {
                out_bth[i] += att_btht2 * value_t2[i];
            }
        }
    }
}
} // namespace llmc

extern "C" void llmc_layernorm_forward(const float* const* in, float* const* out, int rows, int columns) {
    const int block_size = 256;
    const int grid_size = CEIL_DIV(rows * 32, block_size);
    llmc::layernorm_forward_kernel3<<<grid_size, block_size>>>(out[0], out[1], out[2], in[0], in[1], in[2], rows, columns);
    CUDA_CHECK(cudaGetLastError());
}

extern "C" void llmc_layernorm_backward(const float* const* in, float* const* out, int rows, int columns) {
    const int block_size = 512;
    const int grid_size = 64;
    size_t shared_mem_size = 2 * columns * sizeof(float);
    llmc::layernorm_backward_kernel2<<<grid_size, block_size, shared_mem_size>>>(
        out[0], out[1], out[2], in[0], in[1], in[2], in[3], in[4], rows, columns);
    CUDA_CHECK(cudaGetLastError());
}

extern "C" void llmc_softmax_online(const float* const* in, float* const* out, int rows, int columns) {
    const int block_size = 128;
    llmc::softmax_forward_online_kernel2<<<CEIL_DIV(rows * 32, block_size), block_size>>>(out[0], in[0], rows, columns);
    CUDA_CHECK(cudaGetLastError());
}

extern "C" void llmc_fused_classifier(const float* const* in, float* const* out, int rows, int columns) {
    const int block_size = 1024;
    llmc::fused_classifier_kernel3<<<rows, block_size>>>(out[0], out[1], in[0], NULL, (const int*)in[1], rows, columns, columns);
    CUDA_CHECK(cudaGetLastError());
}

extern "C" void llmc_gelu(const float* const* in, float* const* out, int rows, int columns) {
    int N = rows * columns;
    const int block_size = 128;
    llmc::gelu_forward_kernel<<<CEIL_DIV(N, block_size), block_size>>>(out[0], in[0], N);
    llmc::gelu_backward_kernel<<<CEIL_DIV(N, block_size), block_size>>>(out[1], in[0], in[1], N);
    CUDA_CHECK(cudaGetLastError());
}

extern "C" void llmc_encoder_forward(const float* const* in, float* const* out, int rows, int columns) {
    const int T = 64, block_size = 256;
    const int N = rows * columns / 4;
    llmc::encoder_forward_kernel3<<<CEIL_DIV(N, block_size), block_size>>>(
        (float4*)out[0], (const int*)in[0], (const float4*)in[1], (const float4*)in[2], rows, T, columns);
    CUDA_CHECK(cudaGetLastError());
}

extern "C" void llmc_encoder_backward(const float* const* in, float* const* out, int rows, int columns) {
    const int T = 64, block_size = 256;
    const int N = rows * columns;
    llmc::encoder_backward_kernel<<<CEIL_DIV(N, block_size), block_size>>>(out[0], out[1], in[0], (const int*)in[1], rows, T, columns);
    CUDA_CHECK(cudaGetLastError());
}

extern "C" void llmc_bias_backward(const float* const* in, float* const* out, int rows, int columns) {
    const int block_size = 512;
    dim3 grid_dim(columns / 32);
    assert(columns % 32 == 0);
    llmc::matmul_backward_bias_kernel4<<<grid_dim, block_size, block_size * sizeof(float)>>>(out[0], in[0], rows, columns);
    CUDA_CHECK(cudaGetLastError());
}

extern "C" void llmc_adamw(const float* const* in, float* const* out, int rows, int columns) {
    long n = (long)rows * columns;
    cudaMemcpy(out[0], in[0], n * sizeof(float), cudaMemcpyDeviceToDevice);
    cudaMemcpy(out[1], in[2], n * sizeof(float), cudaMemcpyDeviceToDevice);
    cudaMemcpy(out[2], in[3], n * sizeof(float), cudaMemcpyDeviceToDevice);
    const int t = 10;
    const float beta1 = 0.9f, beta2 = 0.999f;
    float beta1_correction = 1.0f - powf(beta1, t);
    float beta2_correction = 1.0f - powf(beta2, t);
    const unsigned int block_size = 512;
    llmc::adamw_kernel2<<<CEIL_DIV(n, block_size), block_size>>>(out[0], in[1], out[1], out[2], n, 1e-3f, beta1, beta2,
                                                                 beta1_correction, beta2_correction, 1e-8f, 0.01f);
    CUDA_CHECK(cudaGetLastError());
}

extern "C" void llmc_global_norm(const float* const* in, float* const* out, int rows, int columns) {
    llmc::global_norm_squared_kernel<<<264, 512>>>(out[0], in[0], (size_t)rows * columns);
    CUDA_CHECK(cudaGetLastError());
}

extern "C" void llmc_attention_naive(const float* const* in, float* const* out, int rows, int columns) {
    const int T = 128, HS = 64;
    const int B = rows / T, NH = columns / HS, C = columns, block_size = 256;
    float* preatt;
    CUDA_CHECK(cudaMalloc((void**)&preatt, (size_t)B * NH * T * T * sizeof(float)));
    llmc::attention_query_key_kernel1<<<CEIL_DIV(B * NH * T * T, block_size), block_size>>>(preatt, in[0], B, T, C, NH);
    llmc::attention_softmax_kernel1<<<CEIL_DIV(B * T * NH, block_size), block_size>>>(out[1], preatt, B, T, NH);
    llmc::attention_value_kernel1<<<CEIL_DIV(B * T * NH, block_size), block_size>>>(out[0], out[1], in[0], B, T, C, NH);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaFree(preatt));
}

// ---------------------------------------------------------------------------------------------------------------------
namespace vllm {
#define VLLM_LDG(arg) __ldg(arg)
#define VLLM_SHFL_XOR_SYNC(var, lane_mask) __shfl_xor_sync(uint32_t(-1), var, lane_mask)
#define VLLM_SHFL_SYNC(var, src_lane) __shfl_sync(uint32_t(-1), var, src_lane)

template <typename T>
__inline__ __device__ T warpReduceSum(T val) {
#pragma unroll
    for (int mask = 16; mask > 0; mask >>= 1) val += VLLM_SHFL_XOR_SYNC(val, mask);
    return val;
}

/* Calculate the sum of all elements in a block */
template <typename T>
__inline__ __device__ T blockReduceSum(T val) {
    static __shared__ T shared[32];
    int lane = threadIdx.x & 0x1f;
    int wid = threadIdx.x >> 5;

    val = warpReduceSum<T>(val);

    if (lane == 0) shared[wid] = val;
    __syncthreads();

    // blockDim.x is not divided by 32
    val = (threadIdx.x < (blockDim.x / 32.f)) ? shared[lane] : (T)(0.0f);
    val = warpReduceSum<T>(val);
    return val;
}

template <typename scalar_t>
__global__ void rms_norm_kernel(scalar_t* __restrict__ out,          // [..., hidden_size]
                                const scalar_t* __restrict__ input,  // [..., hidden_size]
                                const scalar_t* __restrict__ weight, // [hidden_size]
                                const float epsilon, const int num_tokens, const int hidden_size) {
    __shared__ float s_variance;
    float variance = 0.0f;

    for (int idx = threadIdx.x; idx < hidden_size; idx += blockDim.x) {
        const float x = (float)input[blockIdx.x * hidden_size + idx];
        variance += x * x;
    }
    variance = blockReduceSum<float>(variance);
    if (threadIdx.x == 0) {
        s_variance = rsqrtf(variance / hidden_size + epsilon);
    }
    __syncthreads();

    for (int idx = threadIdx.x; idx < hidden_size; idx += blockDim.x) {
        float x = (float)input[blockIdx.x * hidden_size + idx];
        out[blockIdx.x * hidden_size + idx] = ((scalar_t)(x * s_variance)) * weight[idx];
    }
}

template <typename scalar_t, bool IS_NEOX>
inline __device__ void apply_token_rotary_embedding(scalar_t* __restrict__ arr, const scalar_t* __restrict__ cos_ptr,
                                                    const scalar_t* __restrict__ sin_ptr, int rot_offset,
                                                    int embed_dim, bool backward) {
    int x_index, y_index;
    scalar_t cos, sin;
    if (IS_NEOX) {
        // GPT-NeoX style rotary embedding.
        x_index = rot_offset;
        y_index = embed_dim + rot_offset;
        cos = VLLM_LDG(cos_ptr + x_index);
        sin = VLLM_LDG(sin_ptr + x_index);
    } else {
        // GPT-J style rotary embedding.
        x_index = 2 * rot_offset;
        y_index = 2 * rot_offset + 1;
        cos = VLLM_LDG(cos_ptr + x_index / 2);
        sin = VLLM_LDG(sin_ptr + x_index / 2);
    }
    if (backward) sin = -sin;

    const scalar_t x = arr[x_index];
    const scalar_t y = arr[y_index];
    arr[x_index] = x * cos - y * sin;
    arr[y_index] = y * cos + x * sin;
}

template <typename scalar_t, bool IS_NEOX>
__global__ void rotary_embedding_kernel(const int* __restrict__ positions, // [num_tokens]
                                        scalar_t* __restrict__ query,      // [num_tokens, num_heads, head_size]
                                        const scalar_t* __restrict__ cos_sin_cache, // [max_position, 2, rot_dim // 2]
                                        const int rot_dim, const int query_stride, const int num_heads,
                                        const int head_size, bool backward) {
    // Each thread block is responsible for one token.
    const int token_idx = blockIdx.x;
    int pos = positions[token_idx];
    const scalar_t* cache_ptr = cos_sin_cache + pos * rot_dim;
    const int embed_dim = rot_dim / 2;
    const scalar_t* cos_ptr = cache_ptr;
    const scalar_t* sin_ptr = cache_ptr + embed_dim;

    const int nq = num_heads * embed_dim;
    for (int i = threadIdx.x; i < nq; i += blockDim.x) {
        const int head_idx = i / embed_dim;
        const int token_head = token_idx * query_stride + head_idx * head_size;
        const int rot_offset = i % embed_dim;
        apply_token_rotary_embedding<scalar_t, IS_NEOX>(query + token_head, cos_ptr, sin_ptr, rot_offset, embed_dim, backward);
    }
}

template <typename T>
__device__ __forceinline__ T silu_kernel(const T& x) {
    // x * sigmoid(x)
    return (T)(((float)x) / (1.0f + expf((float)-x)));
}

// Activation and gating kernel template.
template <typename scalar_t, scalar_t (*ACT_FN)(const scalar_t&)>
__global__ void act_and_mul_kernel(scalar_t* __restrict__ out,         // [..., d]
                                   const scalar_t* __restrict__ input, // [..., 2, d]
                                   const int d) {
    const int64_t token_idx = blockIdx.x;
    for (int64_t idx = threadIdx.x; idx < d; idx += blockDim.x) {
        const scalar_t x = VLLM_LDG(&input[token_idx * 2 * d + idx]);
        const scalar_t y = VLLM_LDG(&input[token_idx * 2 * d + d + idx]);
        out[token_idx * d + idx] = ACT_FN(x) * y;
    }
}
} // namespace vllm

extern "C" void vllm_rms_norm(const float* const* in, float* const* out, int rows, int columns) {
    dim3 grid(rows);
    dim3 block(std::min(columns, 1024));
    vllm::rms_norm_kernel<float><<<grid, block>>>(out[0], in[0], in[1], 1e-6f, rows, columns);
}

extern "C" void vllm_rotary_forward_backward(const float* const* in, float* const* out, int rows, int columns) {
    const int head_size = 64, rot_dim = 64, num_heads = columns / head_size;
    const size_t bytes = (size_t)rows * columns * sizeof(float);
    cudaMemcpyAsync(out[0], in[1], bytes, cudaMemcpyDeviceToDevice, 0);
    cudaMemcpyAsync(out[1], in[2], bytes, cudaMemcpyDeviceToDevice, 0);
    dim3 grid(rows);
    dim3 block(std::min(num_heads * rot_dim / 2, 512));
    vllm::rotary_embedding_kernel<float, true><<<grid, block>>>((const int*)in[0], out[0], in[3], rot_dim, columns, num_heads, head_size, false);
    vllm::rotary_embedding_kernel<float, true><<<grid, block>>>((const int*)in[0], out[1], in[3], rot_dim, columns, num_heads, head_size, true);
}

extern "C" void vllm_silu_and_mul(const float* const* in, float* const* out, int rows, int columns) {
    dim3 grid(rows);
    dim3 block(std::min(columns, 1024));
    vllm::act_and_mul_kernel<float, vllm::silu_kernel<float>><<<grid, block>>>(out[0], in[0], columns);
}

// ---------------------------------------------------------------------------------------------------------------------
namespace apex {
template <typename U>
__device__ void cuWelfordOnlineSum(const U curr, U& mu, U& sigma2, U& count) {
    count = count + U(1);
    U delta = curr - mu;
    U lmean = mu + delta / count;
    mu = lmean;
    U delta2 = curr - lmean;
    sigma2 = sigma2 + delta * delta2;
}

template <typename U>
__device__ void cuChanOnlineSum(const U muB, const U sigma2B, const U countB, U& mu, U& sigma2, U& count) {
    U delta = muB - mu;
    U nA = count;
    U nB = countB;
    count = count + countB;
    U nX = count;
    if (nX > U(0)) {
        nA = nA / nX;
        nB = nB / nX;
        mu = nA * mu + nB * muB;
        sigma2 = sigma2 + sigma2B + delta * delta * nA * nB * nX;
    } else {
        mu = U(0);
        sigma2 = U(0);
    }
}

template <typename T>
__device__ __forceinline__ T WARP_SHFL(T value, int srcLane, int width = warpSize, unsigned int mask = 0xffffffff) {
    return __shfl_sync(mask, value, srcLane, width);
}

template <typename T, typename U>
__device__ void cuWelfordMuSigma2(const T* __restrict__ vals, const int n1, const int n2, const int i1, U& mu,
                                  U& sigma2, U* buf) {
    // Assumptions: 1) blockDim.x == warpSize, 2) tensor is contiguous, 3) 2*blockDim.y*sizeof(U)+blockDim.y*sizeof(int) shared memory
    U count = U(0);
    mu = U(0);
    sigma2 = U(0);
    if (i1 < n1) {
        // one warp normalizes one n1 index, synchronization is implicit
        const int numx = blockDim.x * blockDim.y;
        const int thrx = threadIdx.x + threadIdx.y * blockDim.x;
        const T* lvals = vals + i1 * n2;
        int l = 4 * thrx;
        for (; l + 3 < n2; l += 4 * numx) {
            for (int k = 0; k < 4; ++k) {
                U curr = static_cast<U>(lvals[l + k]);
                cuWelfordOnlineSum<U>(curr, mu, sigma2, count);
            }
        }
        for (; l < n2; ++l) {
            U curr = static_cast<U>(lvals[l]);
            cuWelfordOnlineSum<U>(curr, mu, sigma2, count);
        }
        // intra-warp reductions
        for (int l = 0; l <= 4; ++l) {
            int srcLaneB = (threadIdx.x + (1 << l)) & 31;
            U muB = WARP_SHFL(mu, srcLaneB);
            U countB = WARP_SHFL(count, srcLaneB);
            U sigma2B = WARP_SHFL(sigma2, srcLaneB);
            cuChanOnlineSum<U>(muB, sigma2B, countB, mu, sigma2, count);
        }
        // threadIdx.x == 0 has correct values for each warp
        // inter-warp reductions
        if (blockDim.y > 1) {
            U* ubuf = (U*)buf;
            U* ibuf = (U*)(ubuf + blockDim.y);
            for (int offset = blockDim.y / 2; offset > 0; offset /= 2) {
                // upper half of warps write to shared
                if (threadIdx.x == 0 && threadIdx.y >= offset && threadIdx.y < 2 * offset) {
                    const int wrt_y = threadIdx.y - offset;
                    ubuf[2 * wrt_y] = mu;
                    ubuf[2 * wrt_y + 1] = sigma2;
                    ibuf[wrt_y] = count;
                }
                __syncthreads();
                // lower half merges
                if (threadIdx.x == 0 && threadIdx.y < offset) {
                    U muB = ubuf[2 * threadIdx.y];
                    U sigma2B = ubuf[2 * threadIdx.y + 1];
                    U countB = ibuf[threadIdx.y];
                    cuChanOnlineSum<U>(muB, sigma2B, countB, mu, sigma2, count);
                }
                __syncthreads();
            }
            // threadIdx.x = 0 && threadIdx.y == 0 only thread that has correct values
            if (threadIdx.x == 0 && threadIdx.y == 0) {
                ubuf[0] = mu;
                ubuf[1] = sigma2;
            }
            __syncthreads();
            mu = ubuf[0];
            sigma2 = ubuf[1] / U(n2);
            // don't care about final value of count, we know count == n2
        } else {
            mu = WARP_SHFL(mu, 0);
            sigma2 = WARP_SHFL(sigma2 / U(n2), 0);
        }
    }
}

template <typename T>
struct SharedMemory;
template <>
struct SharedMemory<float> {
    __device__ float* getPointer() {
        extern __shared__ float s_float[];
        return s_float;
    }
};

template <typename T, typename U, typename V>
__global__ void cuApplyLayerNorm(V* __restrict__ output_vals, U* __restrict__ mean, U* __restrict__ invvar,
                                 const T* __restrict__ vals, const int n1, const int n2, const U epsilon,
                                 const V* __restrict__ gamma, const V* __restrict__ beta) {
    // Assumptions: 1) blockDim.x == warpSize, 2) tensors are contiguous
    for (int i1 = blockIdx.y; i1 < n1; i1 += gridDim.y) {
        SharedMemory<U> shared;
        U* buf = shared.getPointer();
        U mu, sigma2;
        cuWelfordMuSigma2(vals, n1, n2, i1, mu, sigma2, buf);
        const T* lvals = vals + i1 * n2;
        V* ovals = output_vals + i1 * n2;
        U c_invvar = rsqrtf(sigma2 + epsilon);
        const int numx = blockDim.x * blockDim.y;
        const int thrx = threadIdx.x + threadIdx.y * blockDim.x;
        if (gamma != NULL && beta != NULL) {
            for (int i = thrx; i < n2; i += numx) {
                U curr = static_cast<U>(lvals[i]);
                ovals[i] = gamma[i] * static_cast<V>(c_invvar * (curr - mu)) + beta[i];
            }
        } else {
            for (int i = thrx; i < n2; i += numx) {
                U curr = static_cast<U>(lvals[i]);
                ovals[i] = static_cast<V>(c_invvar * (curr - mu));
            }
        }
        if (threadIdx.x == 0 && threadIdx.y == 0) {
            mean[i1] = mu;
            invvar[i1] = c_invvar;
        }
        __syncthreads();
    }
}

// channels-last batch norm: per-column Welford, merged by a tree in shared memory
template <typename T, typename C>
__device__ __forceinline__ void welford_merge_element(C& count, T& mean, T& m2n, const C& num_new, const T& mean_new,
                                                      const T& m2n_new) {
    T factor = T(1.0) / max(1, (count + num_new));
    T delta0 = mean - mean_new;
    mean = (mean_new * num_new + mean * count) * factor;
    m2n += m2n_new + delta0 * delta0 * num_new * count * factor;
    count += num_new;
}

template <typename T>
__device__ __forceinline__ void merge_block_vertical(int& count, T& mean, T& m2n, int* shmem_count, T* shmem_mean,
                                                     T* shmem_m2n) {
    // write to shared memory
    auto address_base = threadIdx.x + threadIdx.y * blockDim.x;
    shmem_mean[address_base] = mean;
    shmem_m2n[address_base] = m2n;
    shmem_count[address_base] = count;

#pragma unroll
    for (int offset = blockDim.y / 2; offset > 0; offset >>= 1) {
        __syncthreads();
        if (threadIdx.y < offset && threadIdx.y + offset < blockDim.y) {
            auto address = address_base + offset * blockDim.x;
            // read shared memory back to register for reduction
            auto num_new = shmem_count[address];
            auto mean_new = shmem_mean[address];
            auto m2n_new = shmem_m2n[address];

            welford_merge_element(count, mean, m2n, num_new, mean_new, m2n_new);

            // last write is not necessary
            shmem_mean[address_base] = mean;
            shmem_m2n[address_base] = m2n;
            shmem_count[address_base] = count;
        }
    }
}

#define MAX_BLOCK_SIZE 512
template <typename scalar_t, int PARALLEL_LOADS>
__global__ void welford_kernel_c_last(const scalar_t* __restrict__ input, scalar_t* __restrict__ out_mean,
                                      scalar_t* __restrict__ out_var_biased, const int reduction_size, const int stride) {
    static __shared__ int shmem_count[MAX_BLOCK_SIZE];
    static __shared__ scalar_t shmem_mean[MAX_BLOCK_SIZE];
    static __shared__ scalar_t shmem_m2n[MAX_BLOCK_SIZE];

    scalar_t x_mean[PARALLEL_LOADS];
    scalar_t m_2_n[PARALLEL_LOADS];
    int count[PARALLEL_LOADS];

#pragma unroll
    for (int i = 0; i < PARALLEL_LOADS; i++) {
        x_mean[i] = scalar_t(0);
        m_2_n[i] = scalar_t(0);
        count[i] = 0;
    }

    int inner_loop_stride = blockDim.y * gridDim.y;
    int m_offset = blockIdx.y * blockDim.y + threadIdx.y;
    int c_offset = blockIdx.x * blockDim.x + threadIdx.x;
    int loop_count = 1 + (reduction_size - 1) / (inner_loop_stride * PARALLEL_LOADS);
    int address_base = m_offset * stride + c_offset;
    int address_increment = inner_loop_stride * stride;

    for (int i = 0; i < loop_count; i++) {
        scalar_t x_math[PARALLEL_LOADS];
        scalar_t x_count_inv[PARALLEL_LOADS];
        scalar_t is_valid[PARALLEL_LOADS];

#pragma unroll
        for (int j = 0; j < PARALLEL_LOADS; j++) {
            if (c_offset < stride && m_offset < reduction_size) {
                x_math[j] = input[address_base];
                count[j]++;
                x_count_inv[j] = scalar_t(1) / count[j];
                is_valid[j] = scalar_t(1);
            } else {
                x_math[j] = scalar_t(0);
                x_count_inv[j] = scalar_t(0);
                is_valid[j] = scalar_t(0);
            }
            m_offset += inner_loop_stride;
            address_base += address_increment;
        }

        // calculate mean/m2n with welford
#pragma unroll
        for (int j = 0; j < PARALLEL_LOADS; j++) {
            scalar_t delta0 = x_math[j] - x_mean[j];
            x_mean[j] += delta0 * x_count_inv[j];
            scalar_t delta1 = x_math[j] - x_mean[j];
            m_2_n[j] += delta0 * delta1 * is_valid[j];
        }
    }

    // thread reduction to accumulate mean/m_2_n/count between PARALLEL_LOADS
#pragma unroll
    for (int j = 1; j < PARALLEL_LOADS; j++) {
        welford_merge_element(count[0], x_mean[0], m_2_n[0], count[j], x_mean[j], m_2_n[j]);
    }

    auto mean_th = x_mean[0];
    auto m2_th = m_2_n[0];
    auto count_th = count[0];
    merge_block_vertical(count_th, mean_th, m2_th, shmem_count, shmem_mean, shmem_m2n);

    if (threadIdx.y == 0 && c_offset < stride) {
        out_mean[c_offset] = mean_th;
        out_var_biased[c_offset] = m2_th / count_th;
    }
}
} // namespace apex

extern "C" void apex_layer_norm(const float* const* in, float* const* out, int rows, int columns) {
    const dim3 threads(32, 4, 1);
    const dim3 blocks(1, std::min(rows, 65535), 1);
    int nshared = threads.y > 1 ? threads.y * sizeof(float) + (threads.y / 2) * sizeof(float) + 2 * sizeof(float) : 0;
    apex::cuApplyLayerNorm<float, float, float><<<blocks, threads, nshared>>>(out[0], out[1], out[2], in[0], rows, columns, 1e-5f, in[1], in[2]);
}

extern "C" void apex_batchnorm_stats_c_last(const float* const* in, float* const* out, int rows, int columns) {
    const dim3 block(32, 16);
    const dim3 grid((columns + 31) / 32, 1);
    apex::welford_kernel_c_last<float, 4><<<grid, block>>>(in[0], out[0], out[1], rows, columns);
}

// ---------------------------------------------------------------------------------------------------------------------
namespace megatron {
template <typename T>
struct Add {
    __device__ __forceinline__ T operator()(T a, T b) const { return a + b; }
};

template <typename T>
struct Max {
    __device__ __forceinline__ T operator()(T a, T b) const { return a < b ? b : a; }
};

template <typename T>
__device__ __forceinline__ T WARP_SHFL_XOR_NATIVE(T value, int laneMask, int width = warpSize, unsigned int mask = 0xffffffff) {
    return __shfl_xor_sync(mask, value, laneMask, width);
}

template <typename acc_t, int WARP_BATCH, int WARP_SIZE_, template <typename> class ReduceOp>
__device__ __forceinline__ void warp_reduce(acc_t* sum) {
    ReduceOp<acc_t> r;
#pragma unroll
    for (int offset = WARP_SIZE_ / 2; offset > 0; offset /= 2) {
#pragma unroll
        for (int i = 0; i < WARP_BATCH; ++i) {
            acc_t b = WARP_SHFL_XOR_NATIVE(sum[i], offset, WARP_SIZE_);
            sum[i] = r(sum[i], b);
        }
    }
}

template <typename acc_t, int log2_elements>
__global__ void scaled_masked_softmax_warp_forward(acc_t* dst, const acc_t* src, const int* mask, const acc_t scale,
                                                   int micro_batch_size, int element_count) {
    constexpr int next_power_of_two = 1 << log2_elements;
    constexpr int W = (next_power_of_two < 32) ? next_power_of_two : 32;
    constexpr int WARP_ITERATIONS = next_power_of_two / W;
    constexpr int WARP_BATCH = (next_power_of_two <= 128) ? 2 : 1;

    int first_batch = (blockDim.y * blockIdx.x + threadIdx.y) * WARP_BATCH;

    // micro_batch_size might not be a multiple of WARP_BATCH
    int local_batches = micro_batch_size - first_batch;
    if (local_batches > WARP_BATCH) local_batches = WARP_BATCH;

    int local_idx = threadIdx.x;
    src += first_batch * element_count + local_idx;
    dst += first_batch * element_count + local_idx;
    mask += first_batch * element_count + local_idx;

    // load data from global memory
    acc_t elements[WARP_BATCH][WARP_ITERATIONS];
#pragma unroll
    for (int i = 0; i < WARP_BATCH; ++i) {
        int batch_element_count = (i >= local_batches) ? 0 : element_count;
#pragma unroll
        for (int it = 0; it < WARP_ITERATIONS; ++it) {
            int element_index = local_idx + it * W;
            int itr_idx = i * element_count + it * W;
            if (element_index < batch_element_count) {
                if (mask[itr_idx] != 1) {
                    elements[i][it] = src[itr_idx] * scale;
                } else {
                    elements[i][it] = -10000.0;
                }
            } else {
                elements[i][it] = -INFINITY;
            }
        }
    }

    // compute max_value
    acc_t max_value[WARP_BATCH];
#pragma unroll
    for (int i = 0; i < WARP_BATCH; ++i) {
        max_value[i] = elements[i][0];
#pragma unroll
        for (int it = 1; it < WARP_ITERATIONS; ++it) {
            max_value[i] = (max_value[i] > elements[i][it]) ? max_value[i] : elements[i][it];
        }
    }
    warp_reduce<acc_t, WARP_BATCH, W, Max>(max_value);

    acc_t sum[WARP_BATCH]{0.0f};
#pragma unroll
    for (int i = 0; i < WARP_BATCH; ++i) {
        if (i >= local_batches) continue;
#pragma unroll
        for (int it = 0; it < WARP_ITERATIONS; ++it) {
            elements[i][it] = expf((elements[i][it] - max_value[i]));
            sum[i] += elements[i][it];
        }
    }
    warp_reduce<acc_t, WARP_BATCH, W, Add>(sum);

    // store result
#pragma unroll
    for (int i = 0; i < WARP_BATCH; ++i) {
        if (i >= local_batches) break;
#pragma unroll
        for (int it = 0; it < WARP_ITERATIONS; ++it) {
            int element_index = local_idx + it * W;
            if (element_index < element_count) {
                dst[i * element_count + it * W] = elements[i][it] / sum[i];
            } else {
                break;
            }
        }
    }
}

template <typename acc_t, int log2_elements>
__global__ void scaled_upper_triang_masked_softmax_warp_backward(acc_t* gradInput, const acc_t* grad,
                                                                 const acc_t* output, acc_t scale, int rows,
                                                                 int element_count) {
    constexpr int next_power_of_two = 1 << log2_elements;
    constexpr int W = (next_power_of_two < 32) ? next_power_of_two : 32;
    constexpr int WARP_ITERATIONS = next_power_of_two / W;

    int row = blockDim.y * blockIdx.x + threadIdx.y;
    if (row >= rows) return;
    int local_seq = row % element_count + 1;
    int local_idx = threadIdx.x;
    grad += row * element_count + local_idx;
    output += row * element_count + local_idx;
    gradInput += row * element_count + local_idx;

    acc_t grad_reg[WARP_ITERATIONS]{0.0f};
    acc_t output_reg[WARP_ITERATIONS]{0.0f};
#pragma unroll
    for (int it = 0; it < WARP_ITERATIONS; ++it) {
        int element_index = local_idx + it * W;
        if (element_index < local_seq && element_index < element_count) {
            output_reg[it] = output[it * W];
            grad_reg[it] = grad[it * W] * output_reg[it];
        }
    }

    acc_t sum[1];
    sum[0] = grad_reg[0];
#pragma unroll
    for (int it = 1; it < WARP_ITERATIONS; ++it) sum[0] += grad_reg[it];
    warp_reduce<acc_t, 1, W, Add>(sum);

#pragma unroll
    for (int it = 0; it < WARP_ITERATIONS; ++it) {
        int element_index = local_idx + it * W;
        if (element_index < element_count) {
            // compute gradients
            gradInput[it * W] = (acc_t)scale * (grad_reg[it] - output_reg[it] * sum[0]);
        }
    }
}

inline int log2_ceil(int value) {
    int log2_value = 0;
    while ((1 << log2_value) < value) ++log2_value;
    return log2_value;
}
} // namespace megatron

extern "C" void megatron_scaled_masked_softmax(const float* const* in, float* const* out, int rows, int columns) {
    using namespace megatron;
    int log2_elements = log2_ceil(columns);
    const int next_power_of_two = 1 << log2_elements;
    int batches_per_warp = (next_power_of_two <= 128) ? 2 : 1;
    int warps_per_block = 128 / 32;
    dim3 threads(32, warps_per_block, 1);
    int blocks = CEIL_DIV(rows, warps_per_block * batches_per_warp);
    const int* mask = (const int*)in[1];
    switch (log2_elements) {
    case 6: scaled_masked_softmax_warp_forward<float, 6><<<blocks, threads>>>(out[0], in[0], mask, 0.5f, rows, columns); break;
    case 7: scaled_masked_softmax_warp_forward<float, 7><<<blocks, threads>>>(out[0], in[0], mask, 0.5f, rows, columns); break;
    case 8: scaled_masked_softmax_warp_forward<float, 8><<<blocks, threads>>>(out[0], in[0], mask, 0.5f, rows, columns); break;
    case 9: scaled_masked_softmax_warp_forward<float, 9><<<blocks, threads>>>(out[0], in[0], mask, 0.5f, rows, columns); break;
    case 10: scaled_masked_softmax_warp_forward<float, 10><<<blocks, threads>>>(out[0], in[0], mask, 0.5f, rows, columns); break;
    default: assert(false && "columns");
    }
}

extern "C" void megatron_causal_softmax_backward(const float* const* in, float* const* out, int rows, int columns) {
    using namespace megatron;
    dim3 threads(32, 4, 1);
    int blocks = CEIL_DIV(rows, 4);
    switch (log2_ceil(columns)) {
    case 6: scaled_upper_triang_masked_softmax_warp_backward<float, 6><<<blocks, threads>>>(out[0], in[0], in[1], 0.5f, rows, columns); break;
    case 7: scaled_upper_triang_masked_softmax_warp_backward<float, 7><<<blocks, threads>>>(out[0], in[0], in[1], 0.5f, rows, columns); break;
    case 8: scaled_upper_triang_masked_softmax_warp_backward<float, 8><<<blocks, threads>>>(out[0], in[0], in[1], 0.5f, rows, columns); break;
    case 9: scaled_upper_triang_masked_softmax_warp_backward<float, 9><<<blocks, threads>>>(out[0], in[0], in[1], 0.5f, rows, columns); break;
    case 10: scaled_upper_triang_masked_softmax_warp_backward<float, 10><<<blocks, threads>>>(out[0], in[0], in[1], 0.5f, rows, columns); break;
    default: assert(false && "columns");
    }
}

// ---------------------------------------------------------------------------------------------------------------------
namespace flash {
__global__ void forward_kernel(const float* Q, const float* K, const float* V, const int N, const int d, const int Tc,
                               const int Tr, const int Bc, const int Br, const float softmax_scale, float* l, float* m,
                               float* O) {
    int tx = threadIdx.x;
    int bx = blockIdx.x;
    int by = blockIdx.y; // batch and head index

    // Offset into Q,K,V,O,l,m - different for each batch and head
    int qkv_offset = (bx * gridDim.y * N * d) + (by * N * d); // gridDim.y = nh
    int lm_offset = (bx * gridDim.y * N) + (by * N);          // offset for l and m

    // Define SRAM for Q,K,V,S
    extern __shared__ float sram[];
    int tile_size = Bc * d; // size of Qi, Kj, Vj
    float* Qi = sram;
    float* Kj = &sram[tile_size];
    float* Vj = &sram[tile_size * 2];
    float* S = &sram[tile_size * 3];

    for (int j = 0; j < Tc; j++) {
        // Load Kj, Vj to SRAM
        for (int x = 0; x < d; x++) {
            Kj[(tx * d) + x] = K[qkv_offset + (tile_size * j) + (tx * d) + x];
            Vj[(tx * d) + x] = V[qkv_offset + (tile_size * j) + (tx * d) + x];
        }
        __syncthreads(); // such that the inner loop can use the correct Kj, Vj

        for (int i = 0; i < Tr; i++) {
            // Load Qi to SRAM, l and m to registers
            for (int x = 0; x < d; x++) {
                Qi[(tx * d) + x] = Q[qkv_offset + (tile_size * i) + (tx * d) + x];
            }
            float row_m_prev = m[lm_offset + (Br * i) + tx];
            float row_l_prev = l[lm_offset + (Br * i) + tx];

            // S = QK^T, row_m = rowmax(S)
            float row_m = -INFINITY;
            for (int y = 0; y < Bc; y++) {
                float sum = 0;
                for (int x = 0; x < d; x++) {
                    sum += Qi[(tx * d) + x] * Kj[(y * d) + x];
                }
                sum *= softmax_scale;
                S[(Bc * tx) + y] = sum;

                if (sum > row_m) row_m = sum;
            }

            // P = exp(S - row_m), row_l = rowsum(P)
            float row_l = 0;
            for (int y = 0; y < Bc; y++) {
                S[(Bc * tx) + y] = __expf(S[(Bc * tx) + y] - row_m);
                row_l += S[(Bc * tx) + y];
            }

            // Compute new m and l
            float row_m_new = max(row_m_prev, row_m);
            float row_l_new = (__expf(row_m_prev - row_m_new) * row_l_prev) + (__expf(row_m - row_m_new) * row_l);

            // Write O, l, m to HBM
            for (int x = 0; x < d; x++) {
                float pv = 0; // Pij * Vj
                for (int y = 0; y < Bc; y++) {
                    pv += S[(Bc * tx) + y] * Vj[(y * d) + x];
                }
                O[qkv_offset + (tile_size * i) + (tx * d) + x] =
                    (1 / row_l_new) * ((row_l_prev * __expf(row_m_prev - row_m_new) * O[qkv_offset + (tile_size * i) + (tx * d) + x]) +
                                       (__expf(row_m - row_m_new) * pv));
            }
            m[lm_offset + (Br * i) + tx] = row_m_new;
            l[lm_offset + (Br * i) + tx] = row_l_new;
        }
        __syncthreads(); // otherwise, thread can use the wrong Kj, Vj in inner loop
    }
}

__global__ void fill_kernel(float* p, float value, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    p[i] = value;
}
} // namespace flash

extern "C" void flash_attention_minimal(const float* const* in, float* const* out, int rows, int columns) {
    const int Bc = 32, Br = 32;
    const int N = 256, d = columns, nh = rows / N;
    const int Tc = ceil((float)N / Bc), Tr = ceil((float)N / Br);
    const float softmax_scale = 1.0 / sqrt(d);
    cudaMemset(out[0], 0, (size_t)rows * d * sizeof(float));
    cudaMemset(out[1], 0, rows * sizeof(float));
    flash::fill_kernel<<<CEIL_DIV(rows, 256), 256>>>(out[2], -INFINITY, rows);
    const int sram_size = (3 * Bc * d * sizeof(float)) + (Bc * Br * sizeof(float));
    dim3 grid_dim(1, nh); // batch_size x num_heads
    dim3 block_dim(Bc);   // Bc threads per block
    flash::forward_kernel<<<grid_dim, block_dim, sram_size>>>(in[0], in[1], in[2], N, d, Tc, Tr, Bc, Br, softmax_scale, out[1], out[2], out[0]);
}

// ---------------------------------------------------------------------------------------------------------------------
namespace mamba {
template <int kNThreads_, int kNItems_>
struct Selective_Scan_fwd_kernel_traits {
    static constexpr int kNThreads = kNThreads_;
    static constexpr int kNItems = kNItems_;
    static constexpr int kNWarps = kNThreads / 32;
};

struct SSMScanOp {
    __device__ __forceinline__ float2 operator()(const float2& ab0, const float2& ab1) const {
        return make_float2(ab1.x * ab0.x, ab1.x * ab0.y + ab1.y);
    }
};

// inclusive scan over a block, by shuffles
template <int kNWarps>
__device__ float2 block_scan(float2 v, float2* smem_warp, float2* block_total) {
    SSMScanOp op;
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
#pragma unroll
    for (int o = 1; o < 32; o <<= 1) {
        float2 u;
        u.x = __shfl_up_sync(0xffffffffu, v.x, o);
        u.y = __shfl_up_sync(0xffffffffu, v.y, o);
        if (lane >= o) v = op(u, v);
    }
    if (lane == 31) smem_warp[warp] = v;
    __syncthreads();
    float2 prefix = make_float2(1.f, 0.f);
#pragma unroll
    for (int w = 0; w < kNWarps; w++) {
        if (w < warp) prefix = op(prefix, smem_warp[w]);
    }
    v = op(prefix, v);
    if (threadIdx.x == blockDim.x - 1) *block_total = v;
    __syncthreads();
    return v;
}

template <typename Ktraits>
__global__ __launch_bounds__(Ktraits::kNThreads) void selective_scan_fwd_kernel(
    const float* __restrict__ u, const float* __restrict__ delta, const float* __restrict__ A,
    const float* __restrict__ B, const float* __restrict__ C, const float* __restrict__ D, float* __restrict__ out,
    int dim, int seqlen, int dstate) {
    constexpr int kNThreads = Ktraits::kNThreads;
    constexpr int kNItems = Ktraits::kNItems;
    __shared__ float2 smem_warp[Ktraits::kNWarps];
    __shared__ float2 smem_total;
    extern __shared__ float2 smem_running_prefix[]; // dstate

    const int batch_id = blockIdx.x;
    const int dim_id = blockIdx.y;
    const float* u_row = u + (batch_id * dim + dim_id) * seqlen;
    const float* delta_row = delta + (batch_id * dim + dim_id) * seqlen;
    float* out_row = out + (batch_id * dim + dim_id) * seqlen;
    const float D_val = D[dim_id];

    for (int s = threadIdx.x; s < dstate; s += kNThreads) smem_running_prefix[s] = make_float2(1.f, 0.f);
    __syncthreads();

    constexpr int kChunkSize = kNThreads * kNItems;
    const int n_chunks = (seqlen + kChunkSize - 1) / kChunkSize;
    SSMScanOp op;
    for (int chunk = 0; chunk < n_chunks; ++chunk) {
        float u_vals[kNItems], delta_vals[kNItems], delta_u_vals[kNItems], out_vals[kNItems];
        const int base = chunk * kChunkSize + threadIdx.x * kNItems;
#pragma unroll
        for (int i = 0; i < kNItems; ++i) {
            u_vals[i] = base + i < seqlen ? u_row[base + i] : 0.f;
            float dt = base + i < seqlen ? delta_row[base + i] : 0.f;
            // softplus
            delta_vals[i] = dt <= 20.f ? log1pf(expf(dt)) : dt;
            delta_u_vals[i] = delta_vals[i] * u_vals[i];
            out_vals[i] = D_val * u_vals[i];
        }
        for (int state_idx = 0; state_idx < dstate; ++state_idx) {
            constexpr float kLog2e = M_LOG2E;
            const float A_val = -expf(A[dim_id * dstate + state_idx]) * kLog2e;
            const float* Bvar = B + (batch_id * dstate + state_idx) * seqlen;
            const float* Cvar = C + (batch_id * dstate + state_idx) * seqlen;
            float2 thread_data[kNItems];
#pragma unroll
            for (int i = 0; i < kNItems; ++i) {
                if (base + i < seqlen) {
                    thread_data[i] = make_float2(exp2f(delta_vals[i] * A_val), Bvar[base + i] * delta_u_vals[i]);
                } else {
                    thread_data[i] = make_float2(1.f, 0.f);
                }
                if (i > 0) thread_data[i] = op(thread_data[i - 1], thread_data[i]);
            }
            float2 total = block_scan<Ktraits::kNWarps>(thread_data[kNItems - 1], smem_warp, &smem_total);
            // exclusive prefix of this thread: the total of the thread before
            __shared__ float2 smem_totals[kNThreads];
            smem_totals[threadIdx.x] = total;
            __syncthreads();
            float2 running = smem_running_prefix[state_idx];
            float2 prefix = threadIdx.x > 0 ? op(running, smem_totals[threadIdx.x - 1]) : running;
#pragma unroll
            for (int i = 0; i < kNItems; ++i) {
                float2 h = op(prefix, thread_data[i]);
                if (base + i < seqlen) out_vals[i] += h.y * Cvar[base + i];
            }
            __syncthreads();
            if (threadIdx.x == 0) {
                smem_running_prefix[state_idx] = op(running, smem_total);
            }
            __syncthreads();
        }
#pragma unroll
        for (int i = 0; i < kNItems; ++i) {
            if (base + i < seqlen) out_row[base + i] = out_vals[i];
        }
    }
}

template <int kNThreads_, int kWidth_>
struct Causal_conv1d_fwd_kernel_traits {
    static constexpr int kNThreads = kNThreads_;
    static constexpr int kWidth = kWidth_;
    static constexpr int kNElts = 4;
};

template <typename Ktraits>
__global__ __launch_bounds__(Ktraits::kNThreads) void causal_conv1d_fwd_kernel(
    const float* __restrict__ x_ptr, const float* __restrict__ weight_ptr, const float* __restrict__ bias_ptr,
    float* __restrict__ out_ptr, int dim, int seqlen, bool silu_activation) {
    constexpr int kWidth = Ktraits::kWidth;
    constexpr int kNThreads = Ktraits::kNThreads;
    constexpr int kNElts = Ktraits::kNElts;
    __shared__ float4 smem_exchange[kNThreads];

    const int tidx = threadIdx.x;
    const int batch_id = blockIdx.x;
    const int channel_id = blockIdx.y;
    const float* x = x_ptr + (batch_id * dim + channel_id) * seqlen;
    const float* weight = weight_ptr + channel_id * kWidth;
    float* out = out_ptr + (batch_id * dim + channel_id) * seqlen;
    float bias_val = bias_ptr == nullptr ? 0.f : float(bias_ptr[channel_id]);

    // Thread 0 will load the last elements of the previous chunk, so we initialize those to 0.
    if (tidx == 0) {
        smem_exchange[kNThreads - 1] = make_float4(0.f, 0.f, 0.f, 0.f);
    }

    float weight_vals[kWidth];
#pragma unroll
    for (int i = 0; i < kWidth; ++i) { weight_vals[i] = float(weight[i]); }

    constexpr int kChunkSize = kNThreads * kNElts;
    const int n_chunks = (seqlen + kChunkSize - 1) / kChunkSize;
    for (int chunk = 0; chunk < n_chunks; ++chunk) {
        alignas(16) float x_vals_load[2 * kNElts] = {0};
        const int base = chunk * kChunkSize + tidx * kNElts;
        if (base < seqlen) {
            *reinterpret_cast<float4*>(&x_vals_load[kNElts]) = *reinterpret_cast<const float4*>(x + base);
        }
        __syncthreads();
        // Thread kNThreads - 1 don't write yet, so that thread 0 can read the last elements of the previous chunk.
        if (tidx < kNThreads - 1) { smem_exchange[tidx] = reinterpret_cast<float4*>(x_vals_load)[1]; }
        __syncthreads();
        reinterpret_cast<float4*>(x_vals_load)[0] = smem_exchange[tidx > 0 ? tidx - 1 : kNThreads - 1];
        __syncthreads();
        // Now thread kNThreads - 1 can write the last elements of the current chunk.
        if (tidx == kNThreads - 1) { smem_exchange[tidx] = reinterpret_cast<float4*>(x_vals_load)[1]; }

        alignas(16) float out_vals[kNElts];
#pragma unroll
        for (int i = 0; i < kNElts; ++i) {
            out_vals[i] = bias_val;
#pragma unroll
            for (int w = 0; w < kWidth; ++w) {
                out_vals[i] += weight_vals[w] * x_vals_load[kNElts + i - (kWidth - w - 1)];
            }
        }

        if (silu_activation) {
#pragma unroll
            for (int i = 0; i < kNElts; ++i) {
                out_vals[i] = out_vals[i] / (1 + expf(-out_vals[i]));
            }
        }
        if (base < seqlen) {
            *reinterpret_cast<float4*>(out + base) = *reinterpret_cast<float4*>(out_vals);
        }
    }
}
} // namespace mamba

extern "C" void mamba_selective_scan(const float* const* in, float* const* out, int rows, int columns) {
    using Ktraits = mamba::Selective_Scan_fwd_kernel_traits<64, 4>;
    const int dim = 64, dstate = 16;
    dim3 grid(rows / dim, dim);
    mamba::selective_scan_fwd_kernel<Ktraits><<<grid, Ktraits::kNThreads, dstate * sizeof(float2)>>>(
        in[0], in[1], in[2], in[3], in[4], in[5], out[0], dim, columns, dstate);
}

extern "C" void mamba_causal_conv1d(const float* const* in, float* const* out, int rows, int columns) {
    using Ktraits = mamba::Causal_conv1d_fwd_kernel_traits<128, 4>;
    const int dim = 64;
    dim3 grid(rows / dim, dim);
    mamba::causal_conv1d_fwd_kernel<Ktraits><<<grid, Ktraits::kNThreads>>>(in[0], in[1], in[2], out[0], dim, columns, true);
}

// ---------------------------------------------------------------------------------------------------------------------
namespace gsplat {
#define BLOCK_X 16
#define BLOCK_Y 16
#define BLOCK_SIZE (BLOCK_X * BLOCK_Y)

// raw parameters of 2D splats -> centre, conic, opacity
__global__ void activate_splats_kernel(int P, const float* __restrict__ raw_xy, const float* __restrict__ raw_scale,
                                       const float* __restrict__ raw_theta, const float* __restrict__ raw_opacity,
                                       int W, int H, float2* means2D, float4* conic_opacity) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= P) return;
    means2D[idx] = {raw_xy[2 * idx] * W, raw_xy[2 * idx + 1] * H};
    float sx = 12.0f * expf(0.3f * raw_scale[2 * idx]);
    float sy = 12.0f * expf(0.3f * raw_scale[2 * idx + 1]);
    float s, c;
    sincosf(raw_theta[idx], &s, &c);
    float3 cov = {c * c * sx * sx + s * s * sy * sy, c * s * (sx * sx - sy * sy), s * s * sx * sx + c * c * sy * sy};
    float det = (cov.x * cov.z - cov.y * cov.y);
    float det_inv = 1.f / det;
    float opacity = 1.f / (1.f + expf(-raw_opacity[idx]));
    conic_opacity[idx] = {cov.z * det_inv, -cov.y * det_inv, cov.x * det_inv, opacity};
}

template <uint32_t CHANNELS>
__global__ void __launch_bounds__(BLOCK_X* BLOCK_Y)
renderCUDA(int per_tile, const uint32_t* __restrict__ point_list, int W, int H,
           const float2* __restrict__ points_xy_image, const float* __restrict__ features,
           const float4* __restrict__ conic_opacity, float* __restrict__ final_T, uint32_t* __restrict__ n_contrib,
           const float* __restrict__ bg_color, float* __restrict__ out_color) {
    // Identify current tile and associated min/max pixel range.
    uint32_t horizontal_blocks = (W + BLOCK_X - 1) / BLOCK_X;
    uint2 pix_min = {blockIdx.x * BLOCK_X, blockIdx.y * BLOCK_Y};
    uint2 pix = {pix_min.x + threadIdx.x, pix_min.y + threadIdx.y};
    uint32_t pix_id = W * pix.y + pix.x;
    float2 pixf = {(float)pix.x, (float)pix.y};
    int thread_rank = threadIdx.y * BLOCK_X + threadIdx.x;

    // Check if this thread is associated with a valid pixel or outside.
    bool inside = pix.x < W && pix.y < H;
    // Done threads can help with fetching, but don't rasterize
    bool done = !inside;

    // Load start/end range of IDs to process in bit sorted list.
    uint32_t tile = blockIdx.y * horizontal_blocks + blockIdx.x;
    uint2 range = {tile * per_tile, (tile + 1) * per_tile};
    const int rounds = ((range.y - range.x + BLOCK_SIZE - 1) / BLOCK_SIZE);
    int toDo = range.y - range.x;

    // Allocate storage for batches of collectively fetched data.
    __shared__ int collected_id[BLOCK_SIZE];
    __shared__ float2 collected_xy[BLOCK_SIZE];
    __shared__ float4 collected_conic_opacity[BLOCK_SIZE];

    // Initialize helper variables
    float T = 1.0f;
    uint32_t contributor = 0;
    uint32_t last_contributor = 0;
    float C[CHANNELS] = {0};

    // Iterate over batches until all done or range is complete
    for (int i = 0; i < rounds; i++, toDo -= BLOCK_SIZE) {
        // End if entire block votes that it is done rasterizing
        int num_done = __syncthreads_count(done);
        if (num_done == BLOCK_SIZE) break;

        // Collectively fetch per-Gaussian data from global to shared
        int progress = i * BLOCK_SIZE + thread_rank;
        if (range.x + progress < range.y) {
            int coll_id = point_list[range.x + progress];
            collected_id[thread_rank] = coll_id;
            collected_xy[thread_rank] = points_xy_image[coll_id];
            collected_conic_opacity[thread_rank] = conic_opacity[coll_id];
        }
        __syncthreads();

        // Iterate over current batch
        for (int j = 0; !done && j < min(BLOCK_SIZE, toDo); j++) {
            // Keep track of current position in range
            contributor++;

            // Resample using conic matrix (cf. "Surface Splatting")
            float2 xy = collected_xy[j];
            float2 d = {xy.x - pixf.x, xy.y - pixf.y};
            float4 con_o = collected_conic_opacity[j];
            float power = -0.5f * (con_o.x * d.x * d.x + con_o.z * d.y * d.y) - con_o.y * d.x * d.y;
            if (power > 0.0f) continue;

            float alpha = min(0.99f, con_o.w * exp(power));
            if (alpha < 1.0f / 255.0f) continue;
            float test_T = T * (1 - alpha);
            if (test_T < 0.0001f) {
                done = true;
                continue;
            }

            for (int ch = 0; ch < CHANNELS; ch++) C[ch] += features[collected_id[j] * CHANNELS + ch] * alpha * T;

            T = test_T;

            // Keep track of last range entry to update this pixel.
            last_contributor = contributor;
        }
    }

    // All threads that treat valid pixel write out their final rendering data
    if (inside) {
        final_T[pix_id] = T;
        n_contrib[pix_id] = last_contributor;
        for (int ch = 0; ch < CHANNELS; ch++) out_color[ch * H * W + pix_id] = C[ch] + T * bg_color[ch];
    }
}

// Forward version of 2D covariance matrix computation
__device__ float3 computeCov2D(const float3& mean, float focal_x, float focal_y, float tan_fovx, float tan_fovy,
                               const float* cov3D) {
    float3 t = mean; // camera at the origin, looking along z
    const float limx = 1.3f * tan_fovx;
    const float limy = 1.3f * tan_fovy;
    const float txtz = t.x / t.z;
    const float tytz = t.y / t.z;
    t.x = min(limx, max(-limx, txtz)) * t.z;
    t.y = min(limy, max(-limy, tytz)) * t.z;

    // J = | fx/z 0 -fx x/z^2 |
    //     | 0 fy/z -fy y/z^2 |
    float j00 = focal_x / t.z, j02 = -(focal_x * t.x) / (t.z * t.z);
    float j11 = focal_y / t.z, j12 = -(focal_y * t.y) / (t.z * t.z);
    float a0 = j00 * cov3D[0] + j02 * cov3D[2], a1 = j00 * cov3D[1] + j02 * cov3D[4], a2 = j00 * cov3D[2] + j02 * cov3D[5];
    float b1 = j11 * cov3D[3] + j12 * cov3D[4], b2 = j11 * cov3D[4] + j12 * cov3D[5];
    // low-pass filter: every Gaussian at least one pixel wide
    return {a0 * j00 + a2 * j02 + 0.3f, a1 * j11 + a2 * j12, b1 * j11 + b2 * j12 + 0.3f};
}

// Forward method for converting scale and rotation properties of each Gaussian to a 3D covariance matrix
__device__ void computeCov3D(const float3 scale, float mod, const float4 rot, float* cov3D) {
    float r = rot.x, x = rot.y, y = rot.z, z = rot.w;
    float R[3][3] = {{1.f - 2.f * (y * y + z * z), 2.f * (x * y - r * z), 2.f * (x * z + r * y)},
                     {2.f * (x * y + r * z), 1.f - 2.f * (x * x + z * z), 2.f * (y * z - r * x)},
                     {2.f * (x * z - r * y), 2.f * (y * z + r * x), 1.f - 2.f * (x * x + y * y)}};
    float s[3] = {mod * scale.x, mod * scale.y, mod * scale.z};
    float M[3][3];
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) M[i][j] = R[i][j] * s[j];
    // Sigma = M M^T; only the upper right is stored
    cov3D[0] = M[0][0] * M[0][0] + M[0][1] * M[0][1] + M[0][2] * M[0][2];
    cov3D[1] = M[0][0] * M[1][0] + M[0][1] * M[1][1] + M[0][2] * M[1][2];
    cov3D[2] = M[0][0] * M[2][0] + M[0][1] * M[2][1] + M[0][2] * M[2][2];
    cov3D[3] = M[1][0] * M[1][0] + M[1][1] * M[1][1] + M[1][2] * M[1][2];
    cov3D[4] = M[1][0] * M[2][0] + M[1][1] * M[2][1] + M[1][2] * M[2][2];
    cov3D[5] = M[2][0] * M[2][0] + M[2][1] * M[2][1] + M[2][2] * M[2][2];
}

__global__ void preprocessCUDA(int P, const float* means3D, const float3* raw_scales, const float4* raw_rotations,
                               float2* points_xy_image, float* depths, float* conics, int W, int H, float focal_x,
                               float focal_y) {
    auto idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= P) return;
    float3 p = {means3D[3 * idx], means3D[3 * idx + 1], means3D[3 * idx + 2] + 6.0f};
    depths[idx] = 0;
    points_xy_image[idx] = {0, 0};
    conics[3 * idx] = conics[3 * idx + 1] = conics[3 * idx + 2] = 0;
    if (p.z <= 0.2f) return;

    float3 rs = raw_scales[idx];
    float3 scale = {expf(rs.x - 2.f), expf(rs.y - 2.f), expf(rs.z - 2.f)};
    float4 q = raw_rotations[idx];
    float inv = rsqrtf(q.x * q.x + q.y * q.y + q.z * q.z + q.w * q.w);
    q = {q.x * inv, q.y * inv, q.z * inv, q.w * inv};
    float cov3D[6];
    computeCov3D(scale, 1.0f, q, cov3D);
    float3 cov = computeCov2D(p, focal_x, focal_y, W / (2 * focal_x), H / (2 * focal_y), cov3D);

    // Invert covariance (EWA algorithm)
    float det = (cov.x * cov.z - cov.y * cov.y);
    if (det == 0.0f) return;
    float det_inv = 1.f / det;
    depths[idx] = p.z;
    points_xy_image[idx] = {focal_x * p.x / p.z + 0.5f * W, focal_y * p.y / p.z + 0.5f * H};
    conics[3 * idx] = cov.z * det_inv;
    conics[3 * idx + 1] = -cov.y * det_inv;
    conics[3 * idx + 2] = cov.x * det_inv;
}
} // namespace gsplat

extern "C" void gsplat_rasterize(const float* const* in, float* const* out, int rows, int columns) {
    const int P = 1024, per_tile = 128, W = columns, H = rows;
    float2* means2D;
    float4* conic_opacity;
    cudaMalloc(&means2D, P * sizeof(float2));
    cudaMalloc(&conic_opacity, P * sizeof(float4));
    gsplat::activate_splats_kernel<<<(P + 255) / 256, 256>>>(P, in[0], in[1], in[2], in[3], W, H, means2D, conic_opacity);
    dim3 tile_grid((W + BLOCK_X - 1) / BLOCK_X, (H + BLOCK_Y - 1) / BLOCK_Y, 1);
    dim3 block(BLOCK_X, BLOCK_Y, 1);
    gsplat::renderCUDA<3><<<tile_grid, block>>>(per_tile, (const uint32_t*)in[5], W, H, means2D, in[4], conic_opacity,
                                                out[1], (uint32_t*)out[2], in[6], out[0]);
    cudaFree(means2D);
    cudaFree(conic_opacity);
}

extern "C" void gsplat_preprocess(const float* const* in, float* const* out, int rows, int columns) {
    const int P = rows * columns;
    gsplat::preprocessCUDA<<<(P + 255) / 256, 256>>>(P, in[0], (const float3*)in[1], (const float4*)in[2], (float2*)out[0],
                                                     out[1], out[2], 800, 600, 500.f, 500.f);
}

// ---------------------------------------------------------------------------------------------------------------------
namespace pointnet2 {
__device__ void __update(float* __restrict__ dists, int* __restrict__ dists_i, int idx1, int idx2) {
    const float v1 = dists[idx1], v2 = dists[idx2];
    const int i1 = dists_i[idx1], i2 = dists_i[idx2];
    dists[idx1] = max(v1, v2);
    dists_i[idx1] = v2 > v1 ? i2 : i1;
}

// Input dataset: (b, n, 3), tmp: (b, n); output idxs (b, m)
template <unsigned int block_size>
__global__ void furthest_point_sampling_kernel(int b, int n, int m, const float* __restrict__ dataset,
                                               float* __restrict__ temp, int* __restrict__ idxs) {
    if (m <= 0) return;
    __shared__ float dists[block_size];
    __shared__ int dists_i[block_size];

    int batch_index = blockIdx.x;
    dataset += batch_index * n * 3;
    temp += batch_index * n;
    idxs += batch_index * m;

    int tid = threadIdx.x;
    const int stride = block_size;

    int old = 0;
    if (threadIdx.x == 0) idxs[0] = old;

    __syncthreads();
    for (int j = 1; j < m; j++) {
        int besti = 0;
        float best = -1;
        float x1 = dataset[old * 3 + 0];
        float y1 = dataset[old * 3 + 1];
        float z1 = dataset[old * 3 + 2];
        for (int k = tid; k < n; k += stride) {
            float x2, y2, z2;
            x2 = dataset[k * 3 + 0];
            y2 = dataset[k * 3 + 1];
            z2 = dataset[k * 3 + 2];

            float d = (x2 - x1) * (x2 - x1) + (y2 - y1) * (y2 - y1) + (z2 - z1) * (z2 - z1);

            float d2 = min(d, temp[k]);
            temp[k] = d2;
            besti = d2 > best ? k : besti;
            best = d2 > best ? d2 : best;
        }
        dists[tid] = best;
        dists_i[tid] = besti;
        __syncthreads();

        if (block_size >= 512) {
            if (tid < 256) { __update(dists, dists_i, tid, tid + 256); }
            __syncthreads();
        }
        if (block_size >= 256) {
            if (tid < 128) { __update(dists, dists_i, tid, tid + 128); }
            __syncthreads();
        }
        if (block_size >= 128) {
            if (tid < 64) { __update(dists, dists_i, tid, tid + 64); }
            __syncthreads();
        }
        if (block_size >= 64) {
            if (tid < 32) { __update(dists, dists_i, tid, tid + 32); }
            __syncthreads();
        }
        if (block_size >= 32) {
            if (tid < 16) { __update(dists, dists_i, tid, tid + 16); }
            __syncthreads();
        }
        if (block_size >= 16) {
            if (tid < 8) { __update(dists, dists_i, tid, tid + 8); }
            __syncthreads();
        }
        if (block_size >= 8) {
            if (tid < 4) { __update(dists, dists_i, tid, tid + 4); }
            __syncthreads();
        }
        if (block_size >= 4) {
            if (tid < 2) { __update(dists, dists_i, tid, tid + 2); }
            __syncthreads();
        }
        if (block_size >= 2) {
            if (tid < 1) { __update(dists, dists_i, tid, tid + 1); }
            __syncthreads();
        }

        old = dists_i[0];
        __syncthreads(); // dists_i is written again
        if (tid == 0) idxs[j] = old;
    }
}

__global__ void fill_kernel(float* p, float value, int n) {
    CUDA_1D_KERNEL_LOOP(i, n) { p[i] = value; }
}

// input: new_xyz(b, m, 3) xyz(b, n, 3); output: idx(b, m, nsample)
__global__ void query_ball_point_kernel(int b, int n, int m, float radius, int nsample,
                                        const float* __restrict__ new_xyz, const float* __restrict__ xyz,
                                        int* __restrict__ idx) {
    int batch_index = blockIdx.x;
    xyz += batch_index * n * 3;
    new_xyz += batch_index * m * 3;
    idx += m * nsample * batch_index;

    int index = threadIdx.x;
    int stride = blockDim.x;

    float radius2 = radius * radius;
    for (int j = index; j < m; j += stride) {
        float new_x = new_xyz[j * 3 + 0];
        float new_y = new_xyz[j * 3 + 1];
        float new_z = new_xyz[j * 3 + 2];
        for (int k = 0, cnt = 0; k < n && cnt < nsample; ++k) {
            float x = xyz[k * 3 + 0];
            float y = xyz[k * 3 + 1];
            float z = xyz[k * 3 + 2];
            float d2 = (new_x - x) * (new_x - x) + (new_y - y) * (new_y - y) + (new_z - z) * (new_z - z);
            if (d2 < radius2) {
                if (cnt == 0) {
                    for (int l = 0; l < nsample; ++l) {
                        idx[j * nsample + l] = k;
                    }
                }
                idx[j * nsample + cnt] = k;
                ++cnt;
            }
        }
    }
}
} // namespace pointnet2

extern "C" void pointnet2_furthest_point_sampling(const float* const* in, float* const* out, int rows, int columns) {
    const int b = rows, n = columns, m = columns / 4;
    pointnet2::fill_kernel<<<CEIL_DIV(b * n, 512), 512>>>(out[1], 1e10f, b * n);
    pointnet2::furthest_point_sampling_kernel<256><<<b, 256>>>(b, n, m, in[0], out[1], (int*)out[0]);
}

extern "C" void pointnet2_ball_query(const float* const* in, float* const* out, int rows, int columns) {
    pointnet2::query_ball_point_kernel<<<rows, 256>>>(rows, columns, columns / 4, 0.1f, 16, in[0], in[1], (int*)out[0]);
}

// ---------------------------------------------------------------------------------------------------------------------
namespace detection {
template <typename T>
__global__ void sigmoid_focal_loss_forward_cuda_kernel(const int nthreads, const T* input, const int* target,
                                                       T* output, const T gamma, const T alpha, const int num_classes) {
    CUDA_1D_KERNEL_LOOP(index, nthreads) {
        int n = index / num_classes;
        int c = index % num_classes;

        int t = target[n];
        T flag_p = (t == c);
        T flag_n = (t != c);

        // p = sigmoid(x) = 1. / 1. + expf(-x)
        T p = (T)1. / ((T)1. + expf(-input[index]));

        // (1 - p)**gamma * log(p)
        T term_p = pow(((T)1. - p), gamma) * log(max(p, (T)FLT_MIN));
        // p**gamma * log(1 - p)
        T term_n = pow(p, gamma) * log(max((T)1. - p, (T)FLT_MIN));

        output[index] = (T)0.;
        output[index] += -flag_p * alpha * term_p;
        output[index] += -flag_n * ((T)1. - alpha) * term_n;
    }
}

template <typename scalar_t>
__global__ void MaxPoolForward(const int nthreads, const scalar_t* bottom_data, const int height, const int width,
                               const int pooled_height, const int pooled_width, const int kernel, const int stride,
                               const int pad, scalar_t* top_data, int* top_mask) {
    CUDA_1D_KERNEL_LOOP(index, nthreads) {
        int pw = index % pooled_width;
        int ph = (index / pooled_width) % pooled_height;
        int plane = index / pooled_width / pooled_height;
        int hstart = ph * stride - pad;
        int wstart = pw * stride - pad;
        int hend = min(hstart + kernel, height);
        int wend = min(wstart + kernel, width);
        while (hstart < 0) hstart += 1;
        while (wstart < 0) wstart += 1;
        scalar_t maxval = -FLT_MAX;
        int maxidx = hstart * width + wstart;
        const scalar_t* btm_data = bottom_data + plane * height * width;
        for (int h = hstart; h < hend; h++) {
            for (int w = wstart; w < wend; w++) {
                scalar_t val = btm_data[h * width + w];
                if ((val > maxval) || isnan(val)) {
                    maxidx = h * width + w;
                    maxval = val;
                }
            }
        }
        top_data[index] = maxval;
        top_mask[index] = maxidx;
    }
}

template <typename scalar_t>
__global__ void MaxPoolBackward(const int nthreads, const scalar_t* top_diff, const int* top_mask, const int size,
                                const int pooled_size, scalar_t* bottom_diff) {
    CUDA_1D_KERNEL_LOOP(index, nthreads) {
        int plane = index / pooled_size;
        atomicAdd(bottom_diff + plane * size + top_mask[index], top_diff[index]);
    }
}
} // namespace detection

extern "C" void mmcv_sigmoid_focal_loss(const float* const* in, float* const* out, int rows, int columns) {
    const int n = rows * columns;
    detection::sigmoid_focal_loss_forward_cuda_kernel<float><<<std::min(CEIL_DIV(n, 512), 4096), 512>>>(
        n, in[0], (const int*)in[1], out[0], 2.0f, 0.25f, columns);
}

extern "C" void caffe_max_pool(const float* const* in, float* const* out, int rows, int columns) {
    const int width = 32, height = columns / width, ph = height / 2, pw = width / 2;
    const int n = rows * ph * pw;
    const int blocks = std::min(CEIL_DIV(n, 1024), 65536);
    detection::MaxPoolForward<float><<<blocks, 1024>>>(n, in[0], height, width, ph, pw, 3, 2, 1, out[0], (int*)out[1]);
    detection::MaxPoolBackward<float><<<blocks, 1024>>>(n, in[1], (const int*)out[1], height * width, ph * pw, out[2]);
}

// ---------------------------------------------------------------------------------------------------------------------
namespace misc {
// y = residual + x * mask / (1 - p), four at once
__global__ void bias_dropout_add_vec4_kernel(const float4* __restrict__ x, const float* __restrict__ bias,
                                             const float4* __restrict__ residual, const int4* __restrict__ mask,
                                             float4* __restrict__ out, float scale, int n4, int columns) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n4; i += gridDim.x * blockDim.x) {
        const int col = (i * 4) % columns;
        const float4 b = __ldg(reinterpret_cast<const float4*>(bias + col));
        const float4 v = x[i];
        const float4 r = residual[i];
        const int4 m = mask[i];
        float4 o;
        o.x = r.x + (v.x + b.x) * (m.x ? scale : 0.0f);
        o.y = r.y + (v.y + b.y) * (m.y ? scale : 0.0f);
        o.z = r.z + (v.z + b.z) * (m.z ? scale : 0.0f);
        o.w = r.w + (v.w + b.w) * (m.w ? scale : 0.0f);
        out[i] = o;
    }
}

template <typename T>
__device__ T WarpReduceSum(T val) {
#pragma unroll
    for (int offset = (warpSize >> 1); offset > 0; offset >>= 1) {
        val += __shfl_down_sync(0xffffffff, val, offset);
    }
    return val;
}

template <typename T>
__device__ T BlockReduceSum(T val, T* shared) {
    const int lid = threadIdx.x % warpSize;
    const int wid = threadIdx.x / warpSize;
    val = WarpReduceSum(val);
    __syncthreads();
    if (lid == 0) {
        shared[wid] = val;
    }
    __syncthreads();
    val = (threadIdx.x < blockDim.x / warpSize) ? shared[lid] : T(0);
    if (wid == 0) {
        val = WarpReduceSum(val);
    }
    return val;
}

template <typename T>
__global__ void RowwiseMomentsCUDAKernel(int64_t N, T eps, const T* X, T* mean, T* rstd) {
    __shared__ T ds_shared[32];
    __shared__ T db_shared[32];
    const int64_t i = blockIdx.x;
    T sum1 = 0;
    T sum2 = 0;
    for (int64_t j = threadIdx.x; j < N; j += blockDim.x) {
        const int64_t index = i * N + j;
        sum1 += X[index];
        sum2 += X[index] * X[index];
    }
    sum1 = BlockReduceSum<T>(sum1, ds_shared);
    sum2 = BlockReduceSum<T>(sum2, db_shared);
    if (threadIdx.x == 0) {
        const T scale = T(1) / static_cast<T>(N);
        sum1 *= scale;
        sum2 = max(sum2 * scale - sum1 * sum1, T(0));
        mean[i] = sum1;
        rstd[i] = rsqrtf(sum2 + eps);
    }
}

template <typename T>
__global__ void ComputeFusedParamsCUDAKernel(int64_t N, int64_t C, int64_t group, const T* mean, const T* rstd,
                                             const T* gamma, const T* beta, T* a, T* b) {
    const int64_t index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index < N * C) {
        const int64_t ng = index / (C / group);
        const int64_t c = index % C;
        const T x = (gamma == nullptr) ? rstd[ng] : rstd[ng] * gamma[c];
        a[index] = x;
        b[index] = -x * mean[ng] + (beta == nullptr ? 0 : beta[c]);
    }
}

template <typename T>
__global__ void GroupNormApplyKernel(const T* x, const T* a, const T* b, T* y, int64_t HxW) {
    const int64_t nc = blockIdx.x;
    const T scale = a[nc], shift = b[nc];
    for (int64_t hw = threadIdx.x; hw < HxW; hw += blockDim.x) {
        const int64_t index = nc * HxW + hw;
        y[index] = scale * x[index] + shift;
    }
}

__global__ void lion_kernel(float* __restrict__ p, const float* __restrict__ g, float* __restrict__ exp_avg, float lr,
                            float wd, float beta1, float beta2, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float grad = g[i];
    float m = exp_avg[i];
    float param = p[i] * (1 - lr * wd);
    float diff = m - grad;
    float update = diff * beta1 + grad;
    // torch.sign
    float sign = update > 0 ? 1.0f : (update < 0 ? -1.0f : 0.0f);
    p[i] = param - lr * sign;
    exp_avg[i] = diff * beta2 + grad;
}

#define TILE_DIM 32
#define BLOCK_ROWS 8
// No bank-conflict transpose
__global__ void transposeNoBankConflicts(float* odata, const float* idata, int height, int width) {
    __shared__ float tile[TILE_DIM][TILE_DIM + 1];

    int x = blockIdx.x * TILE_DIM + threadIdx.x;
    int y = blockIdx.y * TILE_DIM + threadIdx.y;

    for (int j = 0; j < TILE_DIM; j += BLOCK_ROWS)
        if (x < width && y + j < height) tile[threadIdx.y + j][threadIdx.x] = idata[(y + j) * width + x];

    __syncthreads();

    x = blockIdx.y * TILE_DIM + threadIdx.x; // transpose block offset
    y = blockIdx.x * TILE_DIM + threadIdx.y;

    for (int j = 0; j < TILE_DIM; j += BLOCK_ROWS)
        if (x < height && y + j < width) odata[(y + j) * height + x] = tile[threadIdx.x][threadIdx.y + j];
}

template <const int BLOCKSIZE>
__global__ void sgemm_shared_mem_block(int M, int N, int K, float alpha, const float* A, const float* B, float beta, float* C) {
    // the output block that we want to compute in this threadblock
    const uint cRow = blockIdx.x;
    const uint cCol = blockIdx.y;

    // allocate buffer for current block in fast shared mem
    __shared__ float As[BLOCKSIZE * BLOCKSIZE];
    __shared__ float Bs[BLOCKSIZE * BLOCKSIZE];

    // the inner row & col that we're accessing in this thread
    const uint threadCol = threadIdx.x % BLOCKSIZE;
    const uint threadRow = threadIdx.x / BLOCKSIZE;

    // advance pointers to the starting positions
    A += cRow * BLOCKSIZE * K;
    B += cCol * BLOCKSIZE;
    C += cRow * BLOCKSIZE * N + cCol * BLOCKSIZE;

    float tmp = 0.0;
    for (int bkIdx = 0; bkIdx < K; bkIdx += BLOCKSIZE) {
        As[threadRow * BLOCKSIZE + threadCol] = A[threadRow * K + threadCol];
        Bs[threadRow * BLOCKSIZE + threadCol] = B[threadRow * N + threadCol];

        // block threads in this block until cache is fully populated
        __syncthreads();
        A += BLOCKSIZE;
        B += BLOCKSIZE * N;

        // execute the dotproduct on the currently cached block
        for (int dotIdx = 0; dotIdx < BLOCKSIZE; ++dotIdx) {
            tmp += As[threadRow * BLOCKSIZE + dotIdx] * Bs[dotIdx * BLOCKSIZE + threadCol];
        }
        __syncthreads();
    }
    C[threadRow * N + threadCol] = alpha * tmp + beta * C[threadRow * N + threadCol];
}
} // namespace misc

extern "C" void megatron_bias_dropout_add(const float* const* in, float* const* out, int rows, int columns) {
    const int n4 = rows * columns / 4;
    misc::bias_dropout_add_vec4_kernel<<<std::min(CEIL_DIV(n4, 256), 2048), 256>>>(
        (const float4*)in[0], in[1], (const float4*)in[2], (const int4*)in[3], (float4*)out[0], 1.0f / 0.9f, n4, columns);
}

extern "C" void torch_group_norm(const float* const* in, float* const* out, int rows, int columns) {
    const int C = 64, G = 16, N = rows / C, HxW = columns, D = C / G;
    float *a, *b;
    cudaMalloc(&a, N * C * sizeof(float));
    cudaMalloc(&b, N * C * sizeof(float));
    misc::RowwiseMomentsCUDAKernel<float><<<N * G, 512>>>(D * HxW, 1e-5f, in[0], out[1], out[2]);
    misc::ComputeFusedParamsCUDAKernel<float><<<CEIL_DIV(N * C, 256), 256>>>(N, C, G, out[1], out[2], in[1], in[2], a, b);
    misc::GroupNormApplyKernel<float><<<N * C, 256>>>(in[0], a, b, out[0], HxW);
    cudaFree(a);
    cudaFree(b);
}

extern "C" void lion_step(const float* const* in, float* const* out, int rows, int columns) {
    const int n = rows * columns;
    cudaMemcpy(out[0], in[0], n * sizeof(float), cudaMemcpyDeviceToDevice);
    cudaMemcpy(out[1], in[2], n * sizeof(float), cudaMemcpyDeviceToDevice);
    misc::lion_kernel<<<CEIL_DIV(n, 256), 256>>>(out[0], in[1], out[1], 1e-4f, 0.1f, 0.9f, 0.99f, n);
}

extern "C" void transpose_tiled(const float* const* in, float* const* out, int rows, int columns) {
    dim3 dimGrid(CEIL_DIV(columns, TILE_DIM), CEIL_DIV(rows, TILE_DIM), 1);
    dim3 dimBlock(TILE_DIM, BLOCK_ROWS, 1);
    misc::transposeNoBankConflicts<<<dimGrid, dimBlock>>>(out[0], in[0], rows, columns);
}

extern "C" void sgemm_shared(const float* const* in, float* const* out, int rows, int columns) {
    dim3 gridDim(CEIL_DIV(rows, 32), CEIL_DIV(columns, 32));
    dim3 blockDim(32 * 32);
    misc::sgemm_shared_mem_block<32><<<gridDim, blockDim>>>(rows, columns, 256, 1.0f, in[0], in[1], 0.5f, out[0]);
}

// ---------------------------------------------------------------------------------------------------------------------
namespace losses {
namespace cg = cooperative_groups;

// as in the reduction sample: the last warp of a tree in shared memory by shuffles
template <class T>
__device__ __forceinline__ T warpReduceSum(unsigned int mask, T mySum) {
    for (int offset = warpSize / 2; offset > 0; offset /= 2) {
        mySum += __shfl_down_sync(mask, mySum, offset);
    }
    return mySum;
}

template <unsigned int blockSize>
__device__ float blockTreeSum(float mySum) {
    __shared__ float sdata[blockSize];
    unsigned int tid = threadIdx.x;
    sdata[tid] = mySum;
    __syncthreads();

    if ((blockSize >= 512) && (tid < 256)) { sdata[tid] = mySum = mySum + sdata[tid + 256]; }
    __syncthreads();
    if ((blockSize >= 256) && (tid < 128)) { sdata[tid] = mySum = mySum + sdata[tid + 128]; }
    __syncthreads();
    if ((blockSize >= 128) && (tid < 64)) { sdata[tid] = mySum = mySum + sdata[tid + 64]; }
    __syncthreads();

    if (tid < 32) {
        if (blockSize >= 64) mySum += sdata[tid + 32];
        mySum = warpReduceSum<float>(0xffffffff, mySum);
        if (tid == 0) sdata[0] = mySum;
    }
    __syncthreads();
    float total = sdata[0];
    __syncthreads();
    return total;
}

// kl(p || q) of each row, both as logarithms
template <unsigned int blockSize>
__global__ void kl_div_rows_kernel(const float* __restrict__ log_q, const float* __restrict__ log_p,
                                   float* __restrict__ loss, float* __restrict__ grad_log_q, int columns) {
    const float* q = log_q + blockIdx.x * columns;
    const float* p = log_p + blockIdx.x * columns;
    float* g = grad_log_q + blockIdx.x * columns;
    float sum = 0.0f;
    for (int i = threadIdx.x; i < columns; i += blockSize) {
        float target = expf(p[i]);
        sum += target * (p[i] - q[i]);
        g[i] = -target;
    }
    sum = blockTreeSum<blockSize>(sum);
    if (threadIdx.x == 0) loss[blockIdx.x] = sum;
}

__global__ void bce_with_logits_kernel(const float* __restrict__ logits, const float* __restrict__ targets,
                                       const float* __restrict__ pos_weight, float* __restrict__ grad,
                                       float* __restrict__ loss, int n, int columns) {
    __shared__ float warp_sums[32];
    float local = 0.0f;
    const float inv_n = 1.0f / n;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) {
        const float x = logits[i];
        const float y = targets[i];
        const float w = 1.0f + (__ldg(pos_weight + i % columns) - 1.0f) * y;
        const float max_val = fmaxf(-x, 0.0f);
        // (1 - y) * x + w * (log(1 + exp(-|x|)) + max(-x, 0))
        local += (1.0f - y) * x + w * (log1pf(expf(-fabsf(x))) + max_val);
        const float s = 1.0f / (1.0f + expf(-x));
        grad[i] = ((1.0f - y) - w * (1.0f - s)) * inv_n;
    }
    local = warpReduceSum(0xffffffff, local);
    if ((threadIdx.x & 31) == 0) warp_sums[threadIdx.x >> 5] = local;
    __syncthreads();
    if (threadIdx.x < 32) {
        local = threadIdx.x < blockDim.x / 32 ? warp_sums[threadIdx.x] : 0.0f;
        local = warpReduceSum(0xffffffff, local);
        if (threadIdx.x == 0) atomicAdd(loss, local * inv_n);
    }
}

__global__ void cosine_similarity_kernel(const float* a, const float* b, float* out, int rows, int columns, float eps) {
    auto block = cg::this_thread_block();
    auto tile = cg::tiled_partition<32>(block);
    const int row = blockIdx.x * tile.meta_group_size() + tile.meta_group_rank();
    if (row >= rows) return;
    const float* x = a + (size_t)row * columns;
    const float* y = b + (size_t)row * columns;
    float dot = 0.f, xx = 0.f, yy = 0.f;
    for (int i = tile.thread_rank(); i < columns; i += tile.num_threads()) {
        dot += x[i] * y[i];
        xx += x[i] * x[i];
        yy += y[i] * y[i];
    }
    dot = cg::reduce(tile, dot, cg::plus<float>());
    xx = cg::reduce(tile, xx, cg::plus<float>());
    yy = cg::reduce(tile, yy, cg::plus<float>());
    if (tile.thread_rank() == 0) {
        out[row] = dot / (fmaxf(sqrtf(xx), eps) * fmaxf(sqrtf(yy), eps));
    }
}

// one block per row, both distances in one tree of float2
__global__ void triplet_margin_kernel(const float* __restrict__ anchor, const float* __restrict__ positive,
                                      const float* __restrict__ negative, float* __restrict__ loss,
                                      float* __restrict__ d_pos, float* __restrict__ d_neg, int dim, float margin) {
    extern __shared__ float2 partial[];
    const int row = blockIdx.x;
    const float* a = anchor + row * dim;
    const float* p = positive + row * dim;
    const float* n = negative + row * dim;
    float2 acc = make_float2(0.f, 0.f);
    for (int i = threadIdx.x; i < dim; i += blockDim.x) {
        float dp = a[i] - p[i] + 1e-6f;
        float dn = a[i] - n[i] + 1e-6f;
        acc.x += dp * dp;
        acc.y += dn * dn;
    }
    partial[threadIdx.x] = acc;
    __syncthreads();
    for (unsigned int s = blockDim.x / 2; s > 0; s >>= 1) {
        if (threadIdx.x < s) {
            partial[threadIdx.x].x += partial[threadIdx.x + s].x;
            partial[threadIdx.x].y += partial[threadIdx.x + s].y;
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        float dp = sqrtf(partial[0].x);
        float dn = sqrtf(partial[0].y);
        d_pos[row] = dp;
        d_neg[row] = dn;
        loss[row] = fmaxf(dp - dn + margin, 0.0f);
    }
}

__global__ void huber_loss_kernel(const float* pred, const float* target, float* grad, float* loss, float delta, int n) {
    float thread_loss = 0.f;
    int stride = blockDim.x * gridDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
        float diff = pred[i] - target[i];
        float abs_diff = fabsf(diff);
        if (abs_diff <= delta) {
            thread_loss += 0.5f * diff * diff;
            grad[i] = diff / n;
        } else {
            thread_loss += delta * (abs_diff - 0.5f * delta);
            grad[i] = (diff > 0 ? delta : -delta) / n;
        }
    }
    float block_loss = blockTreeSum<256>(thread_loss);
    if (threadIdx.x == 0) atomicAdd(loss, block_loss / n);
}
} // namespace losses

extern "C" void kl_div_rows(const float* const* in, float* const* out, int rows, int columns) {
    int threads = columns >= 512 ? 512 : columns >= 256 ? 256 : 128;
    switch (threads) {
    case 512: losses::kl_div_rows_kernel<512><<<rows, threads>>>(in[0], in[1], out[0], out[1], columns); break;
    case 256: losses::kl_div_rows_kernel<256><<<rows, threads>>>(in[0], in[1], out[0], out[1], columns); break;
    case 128: losses::kl_div_rows_kernel<128><<<rows, threads>>>(in[0], in[1], out[0], out[1], columns); break;
    }
}

extern "C" void bce_with_logits(const float* const* in, float* const* out, int rows, int columns) {
    const int n = rows * columns;
    losses::bce_with_logits_kernel<<<std::min(CEIL_DIV(n, 256), 1024), 256>>>(in[0], in[1], in[2], out[0], out[1], n, columns);
}

extern "C" void cosine_similarity_rows(const float* const* in, float* const* out, int rows, int columns) {
    losses::cosine_similarity_kernel<<<CEIL_DIV(rows, 8), 256>>>(in[0], in[1], out[0], rows, columns, 1e-8f);
}

extern "C" void triplet_margin_rows(const float* const* in, float* const* out, int rows, int columns) {
    const int threads = 128;
    losses::triplet_margin_kernel<<<rows, threads, threads * sizeof(float2)>>>(in[0], in[1], in[2], out[0], out[1], out[2], columns, 1.0f);
}

extern "C" void huber_loss(const float* const* in, float* const* out, int rows, int columns) {
    losses::huber_loss_kernel<<<512, 256>>>(in[0], in[1], out[0], out[1], 1.0f, rows * columns);
}

// ---------------------------------------------------------------------------------------------------------------------
namespace tools {
__device__ __forceinline__ void warp_argmax(float& val, int& idx) {
#pragma unroll
    for (int offset = 16; offset > 0; offset >>= 1) {
        float other_val = __shfl_down_sync(0xffffffff, val, offset);
        int other_idx = __shfl_down_sync(0xffffffff, idx, offset);
        // of equal values the first one
        if (other_val > val || (other_val == val && other_idx < idx)) {
            val = other_val;
            idx = other_idx;
        }
    }
}

__global__ void top1_accuracy_kernel(const float* __restrict__ logits, const int* __restrict__ labels,
                                     int* __restrict__ top1, float* __restrict__ top1_value, int* __restrict__ correct,
                                     int num_classes) {
    __shared__ float shared_val[32];
    __shared__ int shared_idx[32];
    const int row = blockIdx.x;
    const int lane = threadIdx.x & 31;
    const int warp = threadIdx.x >> 5;
    const int num_warps = blockDim.x >> 5;

    float best = -INFINITY;
    int best_idx = num_classes;
    for (int c = threadIdx.x; c < num_classes; c += blockDim.x) {
        float v = logits[(size_t)row * num_classes + c];
        if (v > best) {
            best = v;
            best_idx = c;
        }
    }
    warp_argmax(best, best_idx);
    if (lane == 0) {
        shared_val[warp] = best;
        shared_idx[warp] = best_idx;
    }
    __syncthreads();
    if (warp == 0) {
        best = lane < num_warps ? shared_val[lane] : -INFINITY;
        best_idx = lane < num_warps ? shared_idx[lane] : num_classes;
        warp_argmax(best, best_idx);
        if (lane == 0) {
            top1[row] = best_idx;
            top1_value[row] = best;
            if (best_idx == labels[row]) atomicAdd(correct, 1);
        }
    }
}

// inclusive prefix sum along a row, one block per row
__global__ void row_cumsum_kernel(const float* __restrict__ in, float* __restrict__ out, int columns) {
    __shared__ float warp_sums[32];
    __shared__ float carry;
    const int lane = threadIdx.x % 32;
    const int warp_id = threadIdx.x / 32;
    in += (size_t)blockIdx.x * columns;
    out += (size_t)blockIdx.x * columns;
    if (threadIdx.x == 0) carry = 0.0f;
    __syncthreads();

    for (int base = 0; base < columns; base += blockDim.x) {
        const int i = base + threadIdx.x;
        float value = i < columns ? in[i] : 0.0f;
#pragma unroll
        for (int d = 1; d <= 16; d *= 2) {
            float n = __shfl_up_sync(0xffffffff, value, d, 32);
            if (lane >= d) value += n;
        }
        if (lane == 31) warp_sums[warp_id] = value;
        __syncthreads();

        if (warp_id == 0) {
            float warp_sum = lane < (blockDim.x / 32) ? warp_sums[lane] : 0.0f;
            for (int d = 1; d <= 16; d *= 2) {
                float n = __shfl_up_sync(0xffffffff, warp_sum, d, 32);
                if (lane >= d) warp_sum += n;
            }
            warp_sums[lane] = warp_sum;
        }
        __syncthreads();

        float block_prefix = warp_id > 0 ? warp_sums[warp_id - 1] : 0.0f;
        float c = carry;
        if (i < columns) out[i] = value + block_prefix + c;
        __syncthreads();
        if (threadIdx.x == blockDim.x - 1) carry = c + value + block_prefix;
        __syncthreads();
    }
}

__global__ void histogram_smem_atomics(const int* __restrict__ in, int n, unsigned int* __restrict__ out) {
    // initialize temporary accumulation array in shared memory
    __shared__ unsigned int smem[256];
    for (int i = threadIdx.x; i < 256; i += blockDim.x) smem[i] = 0;
    __syncthreads();

    // process pixels, updates our block's partial histogram in shared memory
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        atomicAdd(&smem[in[i] & 255], 1u);
    }
    __syncthreads();

    // write partial histogram into the global memory
    for (int i = threadIdx.x; i < 256; i += blockDim.x) {
        if (smem[i]) atomicAdd(out + i, smem[i]);
    }
}

// blockwise absmax quantisation to int8, 256 elements a block, four a thread
template <int BLOCK_SIZE_, int NUM_PER_TH>
__global__ void kQuantizeBlockwise(const float* __restrict__ A, float* __restrict__ absmax, char4* __restrict__ out, const int n) {
    constexpr int THREADS = BLOCK_SIZE_ / NUM_PER_TH;
    __shared__ float smem_absmax_value[1];
    __shared__ float warp_max[THREADS / 32 > 0 ? THREADS / 32 : 1];
    const int base_idx = blockIdx.x * BLOCK_SIZE_;
    if (base_idx >= n) return;

    float4 vals = reinterpret_cast<const float4*>(A + base_idx)[threadIdx.x];
    // 1. take max across each block
    float local_abs_max = fmaxf(fmaxf(fabsf(vals.x), fabsf(vals.y)), fmaxf(fabsf(vals.z), fabsf(vals.w)));
    for (int offset = 16; offset > 0; offset >>= 1)
        local_abs_max = fmaxf(local_abs_max, __shfl_xor_sync(0xffffffff, local_abs_max, offset));
    if (threadIdx.x % 32 == 0) warp_max[threadIdx.x / 32] = local_abs_max;
    __syncthreads();
    if (threadIdx.x == 0) {
        float m = warp_max[0];
        for (int w = 1; w < THREADS / 32; w++) m = fmaxf(m, warp_max[w]);
        smem_absmax_value[0] = m;
        absmax[blockIdx.x] = m;
    }
    __syncthreads();

    // 2. scale and round
    const float scale = 127.0f / smem_absmax_value[0];
    char4 q;
    q.x = (signed char)__float2int_rn(vals.x * scale);
    q.y = (signed char)__float2int_rn(vals.y * scale);
    q.z = (signed char)__float2int_rn(vals.z * scale);
    q.w = (signed char)__float2int_rn(vals.w * scale);
    out[blockIdx.x * THREADS + threadIdx.x] = q;
}

template <int BLOCK_SIZE_>
__global__ void kDequantizeBlockwise(const signed char* __restrict__ A, const float* __restrict__ absmax,
                                     float* __restrict__ out, const int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float local_abs_max = __ldg(&absmax[i / BLOCK_SIZE_]);
    out[i] = (float)A[i] * (local_abs_max / 127.0f);
}

// log-softmax by one block a row, with functors
struct MaxFloat {
    __device__ __forceinline__ float operator()(float m, float v) const { return ::max(m, v); }
};
struct AddFloat {
    __device__ __forceinline__ float operator()(float s, float v) const { return s + v; }
};
struct SumExpFloat {
    __device__ __forceinline__ explicit SumExpFloat(float v) : max_k(v) {}
    __device__ __forceinline__ float operator()(float sum, float v) const { return sum + std::exp(v - max_k); }
    const float max_k;
};

struct LogSoftMaxForwardEpilogue {
    __device__ __forceinline__ LogSoftMaxForwardEpilogue(float max_input, float sum)
        : max_input(max_input), logsum(std::log(sum)) {}
    __device__ __forceinline__ float operator()(float input) const { return input - max_input - logsum; }
    const float max_input;
    const float logsum;
};

struct LogSoftMaxBackwardEpilogue {
    __device__ __forceinline__ explicit LogSoftMaxBackwardEpilogue(float sum) : sum(sum) {}
    __device__ __forceinline__ float operator()(float gradOutput, float output) const {
        return gradOutput - std::exp(output) * sum;
    }
    const float sum;
};

template <typename Reduction, typename AccumT>
__device__ __forceinline__ AccumT blockReduce(AccumT* smem, AccumT val, const Reduction& r, AccumT defaultVal) {
    // To avoid RaW races from chaining blockReduce calls together, we need a sync here
    __syncthreads();
    smem[threadIdx.x] = val;
    __syncthreads();

    AccumT warpVal = defaultVal;
    // First warp will perform per-warp reductions for the remaining warps
    uint32_t mask = (((uint64_t)1) << (blockDim.x / 32)) - 1;
    if (threadIdx.x < 32) {
        int lane = threadIdx.x % 32;
        if (lane < blockDim.x / 32) {
#pragma unroll
            for (int i = 0; i < 32; ++i) {
                warpVal = r(warpVal, smem[lane * 32 + i]);
            }
            __syncwarp(mask);
            smem[lane] = warpVal;
        }
    }
    __syncthreads();

    // First thread will perform a reduction of the above per-warp reductions
    AccumT blockVal = defaultVal;
    if (threadIdx.x == 0) {
        for (int i = 0; i < blockDim.x / 32; ++i) {
            blockVal = r(blockVal, smem[i]);
        }
        smem[0] = blockVal;
    }
    __syncthreads();
    return smem[0];
}

template <typename Reduction, int ILP, typename T, typename AccumT>
__device__ __forceinline__ AccumT ilpReduce(const T* data, int size, const Reduction& r, AccumT defaultVal) {
    AccumT threadVal = defaultVal;
    int offset = threadIdx.x;
    int last = size % (ILP * blockDim.x);

    T v[ILP];
    for (; offset < size - last; offset += blockDim.x * ILP) {
#pragma unroll
        for (int j = 0; j < ILP; ++j) v[j] = data[offset + j * blockDim.x];
#pragma unroll
        for (int j = 0; j < ILP; ++j) threadVal = r(threadVal, v[j]);
    }
    // Epilogue
    for (; offset < size; offset += blockDim.x) threadVal = r(threadVal, data[offset]);
    return threadVal;
}

template <int ILP, typename Epilogue>
__global__ void cunn_SoftMaxForward(float* output, const float* input, int classes) {
    extern __shared__ unsigned char smem[];
    auto sdata = reinterpret_cast<float*>(smem);
    // forward pointers to batch[blockIdx.x]
    input += static_cast<int64_t>(blockIdx.x) * classes;
    output += static_cast<int64_t>(blockIdx.x) * classes;

    // find the max
    float threadMax = ilpReduce<MaxFloat, ILP, float, float>(input, classes, MaxFloat(), -FLT_MAX);
    float max_k = blockReduce<MaxFloat, float>(sdata, threadMax, MaxFloat(), -FLT_MAX);

    // reduce all values
    float threadExp = ilpReduce<SumExpFloat, ILP, float, float>(input, classes, SumExpFloat(max_k), 0.0f);
    float sumAll = blockReduce<AddFloat, float>(sdata, threadExp, AddFloat(), 0.0f);

    Epilogue epilogue(max_k, sumAll);
    for (int offset = threadIdx.x; offset < classes; offset += blockDim.x) output[offset] = epilogue(input[offset]);
}

template <int ILP, typename Epilogue>
__global__ void cunn_SoftMaxBackward(float* gradInput, const float* output, const float* gradOutput, int classes) {
    extern __shared__ unsigned char smem[];
    auto sdata = reinterpret_cast<float*>(smem);
    gradInput += static_cast<int64_t>(blockIdx.x) * classes;
    output += static_cast<int64_t>(blockIdx.x) * classes;
    gradOutput += static_cast<int64_t>(blockIdx.x) * classes;

    float threadSum = ilpReduce<AddFloat, ILP, float, float>(gradOutput, classes, AddFloat(), 0.0f);
    float sum_k = blockReduce<AddFloat, float>(sdata, threadSum, AddFloat(), 0.0f);

    Epilogue epilogue(sum_k);
    for (int offset = threadIdx.x; offset < classes; offset += blockDim.x)
        gradInput[offset] = epilogue(gradOutput[offset], output[offset]);
}
} // namespace tools

extern "C" void top1_accuracy(const float* const* in, float* const* out, int rows, int columns) {
    tools::top1_accuracy_kernel<<<rows, 256>>>(in[0], (const int*)in[1], (int*)out[0], out[1], (int*)out[2], columns);
}

extern "C" void row_cumsum(const float* const* in, float* const* out, int rows, int columns) {
    tools::row_cumsum_kernel<<<rows, 256>>>(in[0], out[0], columns);
}

extern "C" void histogram_256(const float* const* in, float* const* out, int rows, int columns) {
    tools::histogram_smem_atomics<<<256, 256>>>((const int*)in[0], rows * columns, (unsigned int*)out[0]);
}

extern "C" void quantize_blockwise(const float* const* in, float* const* out, int rows, int columns) {
    const int n = rows * columns;
    tools::kQuantizeBlockwise<256, 4><<<CEIL_DIV(n, 256), 64>>>(in[0], out[1], (char4*)out[0], n);
    tools::kDequantizeBlockwise<256><<<CEIL_DIV(n, 512), 512>>>((const signed char*)out[0], out[1], out[2], n);
}

extern "C" void torch_log_softmax(const float* const* in, float* const* out, int rows, int columns) {
    constexpr int ILP = sizeof(float4) / sizeof(float);
    dim3 block(std::min(std::max(columns / ILP, 32), 1024));
    size_t smem = block.x * sizeof(float);
    tools::cunn_SoftMaxForward<ILP, tools::LogSoftMaxForwardEpilogue><<<rows, block, smem>>>(out[0], in[0], columns);
    tools::cunn_SoftMaxBackward<ILP, tools::LogSoftMaxBackwardEpilogue><<<rows, block, smem>>>(out[1], out[0], in[1], columns);
}
