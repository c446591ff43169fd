// Softmax and losses.
#include "common.cuh"

// online: one pass for maximum and sum
__global__ void softmax_online_kernel(float* out, const float* inp, int N, int C) {
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / WARP_SIZE;
    int lane = threadIdx.x & 31;
    if (row >= N) return;
    const float* x = inp + row * C;
    float maxval = -INFINITY, sumval = 0.0f, bigger;
    for (int i = lane; i < C; i += 32) {
        bigger = fmaxf(maxval, x[i]);
        sumval = sumval * expf(maxval - bigger) + expf(x[i] - bigger);
        maxval = bigger;
    }
    for (int offset = 16; offset > 0; offset >>= 1) {
        __syncwarp();
        float other_max = __shfl_down_sync(0xFFFFFFFF, maxval, offset);
        float other_sum = __shfl_down_sync(0xFFFFFFFF, sumval, offset);
        if (other_max > maxval) {
            sumval = sumval * expf(maxval - other_max) + other_sum;
            maxval = other_max;
        } else {
            sumval += other_sum * expf(other_max - maxval);
        }
    }
    maxval = __shfl_sync(0xFFFFFFFF, maxval, 0);
    sumval = __shfl_sync(0xFFFFFFFF, sumval, 0);
    for (int i = lane; i < C; i += 32) out[row * C + i] = expf(x[i] - maxval) / sumval;
}
void softmax_online(float* out, const float* inp, int N, int C) {
    softmax_online_kernel<<<CEIL_DIV(N * 32, 128), 128>>>(out, inp, N, C);
}
//@ case softmax_online
//@ call $(out, inp, N, C);
//@ sizes N=6 C=75
//@ in inp[N*C]
//@ out out[N*C]
//@ ref softmax

template <int THREADS>
__global__ void __launch_bounds__(THREADS) log_softmax_kernel(float* out, const float* inp, int cols) {
    const float* x = inp + blockIdx.x * cols;
    float m = -FLT_MAX;
    for (int i = threadIdx.x; i < cols; i += THREADS) m = fmaxf(m, x[i]);
    m = block_reduce_max(m);
    float sum = 0.0f;
    for (int i = threadIdx.x; i < cols; i += THREADS) sum += expf(x[i] - m);
    const float lse = m + logf(block_reduce_sum(sum));
    for (int i = threadIdx.x; i < cols; i += THREADS) out[blockIdx.x * cols + i] = x[i] - lse;
}
void log_softmax(float* out, const float* inp, int rows, int cols, cudaStream_t stream = nullptr) {
    log_softmax_kernel<64><<<rows, 64, 0, stream>>>(out, inp, cols);
}
//@ case log_softmax
//@ call $(out, inp, rows, cols);
//@ sizes rows=5 cols=75
//@ in inp[rows*cols]
//@ out out[rows*cols]
//@ ref log_softmax

__global__ void softmax_backward_kernel(float* dinp, const float* dout, const float* out, int C) {
    const int row = blockIdx.x;
    float dot = 0.0f;
    for (int i = threadIdx.x; i < C; i += blockDim.x) dot += dout[row * C + i] * out[row * C + i];
    dot = block_reduce_sum(dot);
    for (int i = threadIdx.x; i < C; i += blockDim.x)
        dinp[row * C + i] = out[row * C + i] * (dout[row * C + i] - dot);
}
void softmax_backward(float* dinp, const float* dout, const float* out, int N, int C) {
    softmax_backward_kernel<<<N, 64>>>(dinp, dout, out, C);
}
//@ case softmax_backward
//@ call $(dinp, dout, out, N, C);
//@ sizes N=5 C=75
//@ in dout[N*C] out[N*C]
//@ out dinp[N*C]
//@ ref softmax_backward

// scaled, masked to the past; the rest stays zero
__global__ void softmax_causal_kernel(float* out, float inv_temperature, const float* inp, int N, int T) {
    int idx = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (idx >= N * T) return;
    int own_pos = idx % T, lane = threadIdx.x % 32;
    const float* x = inp + idx * T;
    float maxval = -FLT_MAX;
    for (int i = lane; i <= own_pos; i += 32) maxval = fmaxf(maxval, x[i]);
    maxval = warp_reduce_max(maxval);
    float sum = 0.0f;
    for (int i = lane; i <= own_pos; i += 32) sum += expf(inv_temperature * (x[i] - maxval));
    float norm = 1.0f / warp_reduce_sum(sum);
    for (int i = lane; i < T; i += 32)
        out[idx * T + i] = i <= own_pos ? expf(inv_temperature * (x[i] - maxval)) * norm : 0.0f;
}
void softmax_causal(float* out, float inv_temperature, const float* inp, int N, int T, int block_size) {
    softmax_causal_kernel<<<CEIL_DIV(N * T * 32, block_size), block_size>>>(out, inv_temperature, inp, N, T);
}
//@ case softmax_causal
//@ call $(out, 0.25f, inp, N, T, 128);
//@ sizes N=2 T=37
//@ in inp[N*T*T]
//@ out out[N*T*T]
//@ ref softmax_causal

__global__ void crossentropy_forward_kernel(float* losses, const float* probs, const int* targets, int B,
                                            int T, int V) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < B * T) {
        int b = i / T, t = i % T;
        const float* probs_bt = probs + b * T * V + t * V;
        losses[b * T + t] = -logf(probs_bt[targets[b * T + t]]);
    }
}
void crossentropy_forward(float* losses, const float* probs, const int* targets, int B, int T, int V,
                          const int block_size) {
    crossentropy_forward_kernel<<<CEIL_DIV(B * T, block_size), block_size>>>(losses, probs, targets, B, T, V);
}
//@ case crossentropy_forward
//@ call $(losses, probs, targets, B, T, V, 32);
//@ sizes B=2 T=9 V=31
//@ in probs[B*T*V]+ targets:i32[B*T]<V
//@ out losses[B*T]
//@ ref crossentropy_forward

__global__ void crossentropy_softmax_backward_kernel(float* dlogits, const float* dlosses, const float* probs,
                                                     const int* targets, int B, int T, int V) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < B * T * V) {
        int b = i / (T * V), t = (i / V) % T, v = i % V;
        float p = probs[b * T * V + t * V + v];
        float indicator = v == targets[b * T + t] ? 1.0f : 0.0f;
        dlogits[b * T * V + t * V + v] += (p - indicator) * dlosses[b * T + t];
    }
}
void crossentropy_softmax_backward(float* dlogits, const float* dlosses, const float* probs,
                                   const int* targets, int B, int T, int V, const int block_size) {
    const int N = B * T * V;
    crossentropy_softmax_backward_kernel<<<CEIL_DIV(N, block_size), block_size>>>(dlogits, dlosses, probs, targets, B, T, V);
}
//@ case crossentropy_softmax_backward
//@ call $(dlogits, dlosses, probs, targets, B, T, V, 128);
//@ sizes B=2 T=9 V=31
//@ in dlosses[B*T] probs[B*T*V] targets:i32[B*T]<V
//@ out dlogits[B*T*V]=0
//@ ref crossentropy_softmax_backward

// loss and gradient in one, in place on the logits, padded vocabulary
__global__ void fused_classifier_kernel(float* logits, float* losses, float dloss, const int* targets, int V,
                                        int P) {
    const int idx = blockIdx.x, ix = targets[idx];
    float* x = logits + idx * P;
    float m = -FLT_MAX;
    for (int i = threadIdx.x; i < V; i += blockDim.x) m = fmaxf(m, x[i]);
    m = block_reduce_max(m);
    float sum = 0.0f;
    for (int i = threadIdx.x; i < V; i += blockDim.x) sum += expf(x[i] - m);
    const float scale = 1.0f / block_reduce_sum(sum);
    if (threadIdx.x == 0) losses[idx] = -logf(expf(x[ix] - m) * scale);
    __syncthreads();
    for (int i = threadIdx.x; i < V; i += blockDim.x) {
        float prob = expf(x[i] - m) * scale;
        x[i] = (prob - (i == ix ? 1.0f : 0.0f)) * dloss;
    }
}
void fused_classifier(float* logits, float* losses, float dloss, const int* targets, int B, int T, int V, int P) {
    fused_classifier_kernel<<<B * T, 64>>>(logits, losses, dloss, targets, V, P);
}
//@ case fused_classifier
//@ call $(logits, losses, 0.125f, targets, B, T, V, P);
//@ sizes B=2 T=4 V=50 P=64
//@ in before[B*T*P] targets:i32[B*T]<V
//@ out logits[B*T*P]=before losses[B*T]
//@ ref fused_classifier

// with label smoothing, a z-loss and an index that is ignored; mean over what counts
__global__ void smoothed_xent_kernel(float* loss, float* dlogits, const float* logits, const int* targets,
                                     int rows, int V, float smoothing, float z_loss, int ignore_index) {
    const int row = blockIdx.x, t = targets[row];
    const float* x = logits + (size_t)row * V;
    float* d = dlogits + (size_t)row * V;
    if (t == ignore_index) {
        for (int i = threadIdx.x; i < V; i += blockDim.x) d[i] = 0.0f;
        return;
    }
    float m = -FLT_MAX, sum = 0.0f, total = 0.0f;
    for (int i = threadIdx.x; i < V; i += blockDim.x) {
        m = fmaxf(m, x[i]);
        total += x[i];
    }
    m = block_reduce_max(m);
    total = block_reduce_sum(total);
    for (int i = threadIdx.x; i < V; i += blockDim.x) sum += expf(x[i] - m);
    sum = block_reduce_sum(sum);
    const float lse = m + logf(sum);
    if (threadIdx.x == 0) {
        float nll = lse - x[t], smooth = lse - total / V;
        atomicAdd(loss, ((1.0f - smoothing) * nll + smoothing * smooth + z_loss * lse * lse) / rows);
    }
    for (int i = threadIdx.x; i < V; i += blockDim.x) {
        float p = expf(x[i] - lse);
        float q = smoothing / V + (i == t ? 1.0f - smoothing : 0.0f);
        d[i] = (p - q + 2.0f * z_loss * lse * p) / rows;
    }
}
void smoothed_xent(float* loss, float* dlogits, const float* logits, const int* targets, int rows, int V,
                   float smoothing, float z_loss, int ignore_index) {
    cudaMemset(loss, 0, sizeof(float));
    smoothed_xent_kernel<<<rows, 64>>>(loss, dlogits, logits, targets, rows, V, smoothing, z_loss, ignore_index);
}
//@ case smoothed_xent
//@ call $(loss, dlogits, logits, targets, rows, V, 0.1f, 1e-3f, 3);
//@ sizes rows=8 V=45
//@ in logits[rows*V] targets:i32[rows]<V
//@ out loss[1] dlogits[rows*V]
//@ ref smoothed_xent

__global__ void mse_kernel(float* partial, float* grad, const float* pred, const float* target, int n) {
    float sum = 0.0f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        float diff = pred[i] - target[i];
        sum += diff * diff;
        grad[i] = 2.0f * diff / n;
    }
    sum = block_reduce_sum(sum);
    if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}
float mse_loss(float* partial, float* grad, const float* pred, const float* target, int n) {
    const int blocks = 4;
    float host[4];
    mse_kernel<<<blocks, 64>>>(partial, grad, pred, target, n);
    CUDA_CHECK(cudaMemcpy(host, partial, sizeof(host), cudaMemcpyDeviceToHost));
    float sum = 0.0f;
    for (float one : host) sum += one;
    return sum / n;
}
//@ case mse_loss
//@ call *host_result = $(partial, grad, pred, target, n);
//@ sizes n=500
//@ in pred[n] target[n]
//@ out grad[n] partial[4] loss[1]
//@ ref mse_loss
//@ result loss
