// Copies, permutes, sums over windows and prefixes, quantisation, choices of the greatest.
#include "common.cuh"

__global__ void residual_forward_kernel(floatX* out, const floatX* inp1, const floatX* inp2) {
    int idx = (blockIdx.x * blockDim.x + threadIdx.x) * x128::size;
    x128 packed_out;
    const x128 packed_inp1 = load128(inp1 + idx), packed_inp2 = load128(inp2 + idx);
    for (int k = 0; k < (int)packed_inp1.size; k++) packed_out[k] = (floatX)((float)packed_inp1[k] + (float)packed_inp2[k]);
    store128(out + idx, packed_out);
}
void residual_forward(floatX* out, const floatX* inp1, const floatX* inp2, int N, cudaStream_t stream) {
    const int block_size = 32;
    residual_forward_kernel<<<CEIL_DIV(N, (int)(block_size * x128::size)), block_size, 0, stream>>>(out, inp1, inp2);
}
//@ case residual_forward
//@ call $(out, inp1, inp2, N, 0);
//@ sizes N=640
//@ in inp1[N] inp2[N]
//@ out out[N]
//@ ref residual_forward

const int TILE_DIM = 32, BLOCK_ROWS = 8;
__global__ void transpose_kernel(float* odata, const float* idata, int rows, int cols) {
    __shared__ float tile[TILE_DIM][TILE_DIM + 1];
    int x = blockIdx.x * TILE_DIM + threadIdx.x, y = blockIdx.y * TILE_DIM + threadIdx.y;
    for (int j = 0; j < TILE_DIM; j += BLOCK_ROWS)
        if (x < cols && y + j < rows) tile[threadIdx.y + j][threadIdx.x] = idata[(y + j) * cols + x];
    __syncthreads();
    x = blockIdx.y * TILE_DIM + threadIdx.x;
    y = blockIdx.x * TILE_DIM + threadIdx.y;
    for (int j = 0; j < TILE_DIM; j += BLOCK_ROWS)
        if (x < rows && y + j < cols) odata[(y + j) * rows + x] = tile[threadIdx.x][threadIdx.y + j];
}
void transpose(float* odata, const float* idata, int rows, int cols) {
    dim3 grid(CEIL_DIV(cols, TILE_DIM), CEIL_DIV(rows, TILE_DIM)), block(TILE_DIM, BLOCK_ROWS);
    transpose_kernel<<<grid, block>>>(odata, idata, rows, cols);
}
//@ case transpose
//@ call $(odata, idata, rows, cols);
//@ sizes rows=37 cols=45
//@ in idata[rows*cols]
//@ out odata[rows*cols]
//@ ref transpose

__global__ void nchw_to_nhwc_kernel(float* out, const float* in, int C, int HW, int total) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < total; i += gridDim.x * blockDim.x) {
        int c = i % C, p = (i / C) % HW, n = i / (C * HW);
        out[i] = __ldg(&in[(n * C + c) * HW + p]);
    }
}
void nchw_to_nhwc(float* out, const float* in, int N, int C, int H, int W) {
    nchw_to_nhwc_kernel<<<2, 128>>>(out, in, C, H * W, N * C * H * W);
}
//@ case nchw_to_nhwc
//@ call $(out, in, N, C, H, W);
//@ sizes N=2 C=3 H=5 W=7
//@ in in[N*C*H*W]
//@ out out[N*C*H*W]
//@ ref nchw_to_nhwc

__global__ void conv1d_kernel(float* out, const float* x, const float* weight, const float* bias, int C, int L, int OC,
                              int K, int padding) {
    int t = blockIdx.x * blockDim.x + threadIdx.x, oc = blockIdx.y, b = blockIdx.z;
    if (t >= L) return;
    float acc = bias[oc];
    for (int c = 0; c < C; c++) {
#pragma unroll 4
        for (int k = 0; k < K; k++) {
            int pos = t + k - padding;
            if (pos >= 0 && pos < L) acc += x[(b * C + c) * L + pos] * weight[(oc * C + c) * K + k];
        }
    }
    out[(b * gridDim.y + oc) * L + t] = acc;
}
void conv1d(float* out, const float* x, const float* weight, const float* bias, int B, int C, int L, int OC, int K, int padding) {
    conv1d_kernel<<<dim3(CEIL_DIV(L, 32), OC, B), 32>>>(out, x, weight, bias, C, L, OC, K, padding);
}
//@ case conv1d
//@ call $(out, x, weight, bias, B, C, L, OC, K, 1);
//@ sizes B=2 C=4 L=21 OC=5 K=3
//@ in x[B*C*L] weight[OC*C*K] bias[OC]
//@ out out[B*OC*L]
//@ ref conv1d

// depthwise, of the past alone, as state-space models have it
template <int WIDTH>
__global__ void causal_conv1d_kernel(float* out, const float* x, const float* weight, int D, int L) {
    int d = blockIdx.x, b = blockIdx.y;
    float w[WIDTH];
#pragma unroll
    for (int i = 0; i < WIDTH; i++) w[i] = weight[d * WIDTH + i];
    const float* row = x + (b * D + d) * L;
    for (int t = threadIdx.x; t < L; t += blockDim.x) {
        float acc = 0.f;
#pragma unroll
        for (int i = 0; i < WIDTH; i++) {
            int s = t - (WIDTH - 1 - i);
            acc += w[i] * (s >= 0 ? row[s] : 0.f);
        }
        out[(b * D + d) * L + t] = acc / (1.f + expf(-acc));
    }
}
void causal_conv1d(float* out, const float* x, const float* weight, int B, int D, int L) {
    causal_conv1d_kernel<4><<<dim3(D, B), 32>>>(out, x, weight, D, L);
}
//@ case causal_conv1d
//@ call $(out, x, weight, B, D, L);
//@ sizes B=2 D=3 L=41
//@ in x[B*D*L] weight[D*4]
//@ out out[B*D*L]
//@ ref causal_conv1d

__global__ void cumsum_kernel(float* out, const float* inp, int cols) {
    __shared__ float warp_sums[32];
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    float carry = 0.f;
    for (int start = 0; start < cols; start += blockDim.x) {
        const int i = start + threadIdx.x;
        float v = i < cols ? inp[blockIdx.x * cols + i] : 0.f;
        for (int offset = 1; offset < 32; offset <<= 1) {
            float n = __shfl_up_sync(0xffffffffu, v, offset);
            if (lane >= offset) v += n;
        }
        if (lane == 31) warp_sums[warp] = v;
        __syncthreads();
        float before = carry;
        for (int w = 0; w < warp; w++) before += warp_sums[w];
        if (i < cols) out[blockIdx.x * cols + i] = v + before;
        for (int w = 0; w < (int)blockDim.x / 32; w++) carry += warp_sums[w];
        __syncthreads();
    }
}
void cumsum(float* out, const float* inp, int rows, int cols) { cumsum_kernel<<<rows, 64>>>(out, inp, cols); }
//@ case cumsum
//@ call $(out, inp, rows, cols);
//@ sizes rows=3 cols=150
//@ in inp[rows*cols]
//@ out out[rows*cols]
//@ ref cumsum

// h = a h + x over time, a thread a channel
__global__ void linear_scan_kernel(float* h, const float* a, const float* x, int T, int D) {
    int d = blockIdx.x * blockDim.x + threadIdx.x, b = blockIdx.y;
    if (d >= D) return;
    float state = 0.f;
    for (int t = 0; t < T; t++) {
        size_t at = ((size_t)b * T + t) * D + d;
        state = fmaf(1.f / (1.f + expf(-a[at])), state, x[at]);
        h[at] = state;
    }
}
void linear_scan(float* h, const float* a, const float* x, int B, int T, int D) {
    linear_scan_kernel<<<dim3(CEIL_DIV(D, 32), B), 32>>>(h, a, x, T, D);
}
//@ case linear_scan
//@ call $(h, a, x, B, T, D);
//@ sizes B=2 T=11 D=20
//@ in a[B*T*D] x[B*T*D]
//@ out h[B*T*D]
//@ ref linear_scan

__global__ void quantize_rows_kernel(signed char* q, float* scales, const float* x, int cols) {
    const int row = blockIdx.x;
    float amax = 0.f;
    for (int i = threadIdx.x; i < cols; i += blockDim.x) amax = fmaxf(amax, fabsf(x[row * cols + i]));
    amax = block_reduce_max(amax);
    const float scale = amax / 127.0f;
    if (threadIdx.x == 0) scales[row] = scale;
    for (int i = threadIdx.x; i < cols; i += blockDim.x)
        q[row * cols + i] = (signed char)max(-127, min(127, __float2int_rn(x[row * cols + i] / scale)));
}
__global__ void dequantize_rows_kernel(float* out, const signed char* q, const float* scales, int cols) {
    const int row = blockIdx.y, i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < cols) out[row * cols + i] = q[row * cols + i] * scales[row];
}
void quantize_rows(signed char* q, float* scales, const float* x, int rows, int cols) {
    quantize_rows_kernel<<<rows, 64>>>(q, scales, x, cols);
}
void dequantize_rows(float* out, const signed char* q, const float* scales, int rows, int cols) {
    dequantize_rows_kernel<<<dim3(CEIL_DIV(cols, 64), rows), 64>>>(out, q, scales, cols);
}
//@ case quantize_rows dequantize_rows
//@ call signed char* q; cudaMalloc(&q, rows * cols); quantize_rows(q, scales, x, rows, cols); dequantize_rows(out, q, scales, rows, cols);
//@ sizes rows=4 cols=70
//@ in x[rows*cols]
//@ out out[rows*cols] scales[rows]
//@ ref quantize_rows

// two numbers of four bits a byte, a scale a group
__global__ void dequantize_int4_kernel(half* out, const uint8_t* packed, const half* scales, int n, int group) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i * 2 >= n) return;
    const uint8_t byte = packed[i];
    const float s = __half2float(scales[i * 2 / group]);
    out[2 * i] = __float2half((float)((int)(byte & 0xF) - 8) * s);
    out[2 * i + 1] = __float2half((float)((int)(byte >> 4) - 8) * s);
}
void dequantize_int4(half* out, const uint8_t* packed, const half* scales, int n, int group) {
    dequantize_int4_kernel<<<CEIL_DIV(n / 2, 64), 64>>>(out, packed, scales, n, group);
}
//@ case dequantize_int4
//@ call uint8_t* bytes; cudaMalloc(&bytes, n / 2); narrow_bytes<<<1, n / 2>>>(bytes, packed); $(out, bytes, scales, n, 32);
//@ sizes n=256
//@ in packed:i32[128]<256 scales:f16[8]
//@ out out:f16[n]
//@ ref dequantize_int4
//@ tol 1e-3
__global__ void narrow_bytes(uint8_t* bytes, const int* wide) { bytes[threadIdx.x] = (uint8_t)wide[threadIdx.x]; }

// the k greatest of a row, by as many passes
__global__ void topk_kernel(float* values, int* indices, const float* x, int cols, int k) {
    const float* row = x + blockIdx.x * cols;
    const int lane = threadIdx.x;
    float last = INFINITY;
    int last_at = -1;
    for (int j = 0; j < k; j++) {
        float best = -INFINITY;
        int at = 0x7fffffff;
        for (int i = lane; i < cols; i += 32) {
            float v = row[i];
            bool open = v < last || (v == last && i > last_at);
            if (open && (v > best || (v == best && i < at))) {
                best = v;
                at = i;
            }
        }
        for (int offset = 16; offset > 0; offset /= 2) {
            float other = __shfl_xor_sync(~0u, best, offset);
            int other_at = __shfl_xor_sync(~0u, at, offset);
            if (other > best || (other == best && other_at < at)) {
                best = other;
                at = other_at;
            }
        }
        if (lane == 0) {
            values[blockIdx.x * k + j] = best;
            indices[blockIdx.x * k + j] = at;
        }
        last = best;
        last_at = at;
    }
}
void topk(float* values, int* indices, const float* x, int rows, int cols, int k) {
    topk_kernel<<<rows, 32>>>(values, indices, x, cols, k);
}
//@ case topk
//@ call $(values, indices, x, rows, cols, k);
//@ sizes rows=4 cols=50 k=5
//@ in x[rows*cols]
//@ out values[rows*k] indices:i32[rows*k]
//@ ref topk

// experts: softmax over a few, the best two, weights that add up to one
__global__ void moe_gate_kernel(float* weights, int* experts, const float* logits, int tokens, int E) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= tokens) return;
    const float* x = logits + t * E;
    int first = 0, second = -1;
    for (int e = 1; e < E; e++)
        if (x[e] > x[first]) first = e;
    for (int e = 0; e < E; e++)
        if (e != first && (second < 0 || x[e] > x[second])) second = e;
    float ratio = expf(x[second] - x[first]);
    experts[2 * t] = first;
    experts[2 * t + 1] = second;
    weights[2 * t] = 1.f / (1.f + ratio);
    weights[2 * t + 1] = ratio / (1.f + ratio);
}
void moe_gate(float* weights, int* experts, const float* logits, int tokens, int E) {
    moe_gate_kernel<<<CEIL_DIV(tokens, 32), 32>>>(weights, experts, logits, tokens, E);
}
//@ case moe_gate
//@ call $(weights, experts, logits, tokens, E);
//@ sizes tokens=20 E=6
//@ in logits[tokens*E]
//@ out weights[2*tokens] experts:i32[2*tokens]
//@ ref moe_gate

__global__ void histogram_kernel(int* counts, const int* ids, int n, int bins) {
    extern __shared__ int local[];
    for (int i = threadIdx.x; i < bins; i += blockDim.x) local[i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&local[ids[i]], 1);
    __syncthreads();
    for (int i = threadIdx.x; i < bins; i += blockDim.x) atomicAdd(&counts[i], local[i]);
}
void histogram(int* counts, const int* ids, int n, int bins) {
    histogram_kernel<<<3, 32, bins * sizeof(int)>>>(counts, ids, n, bins);
}
//@ case histogram
//@ call $(counts, ids, n, bins);
//@ sizes n=300 bins=17
//@ in ids:i32[n]<bins
//@ out counts:i32[bins]=0
//@ ref histogram

__global__ void argmax_kernel(int* out, const __nv_bfloat16* logits, int V) {
    __shared__ float best[32];
    __shared__ int where[32];
    float m = -INFINITY;
    int at = 0;
    for (int i = threadIdx.x; i < V; i += 32) {
        float v = __bfloat162float(logits[blockIdx.x * V + i]);
        if (v > m) {
            m = v;
            at = i;
        }
    }
    best[threadIdx.x] = m;
    where[threadIdx.x] = at;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int i = 1; i < 32; i++)
            if (best[i] > m || (best[i] == m && where[i] < at)) {
                m = best[i];
                at = where[i];
            }
        out[blockIdx.x] = at;
    }
}
void argmax_rows(int* out, const __nv_bfloat16* logits, int rows, int V) { argmax_kernel<<<rows, 32>>>(out, logits, V); }
//@ case argmax_rows
//@ call $(out, logits, rows, V);
//@ sizes rows=7 V=60
//@ in logits:bf16[rows*V]
//@ out out:i32[rows]
//@ ref argmax_rows

template <int N>
struct Strides {
    int of[N];
};
template <int N>
__global__ void slice_kernel(float* out, const float* in, Strides<N> shape, Strides<N> strides, int total) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= total) return;
    int rest = i, from = 0;
#pragma unroll
    for (int d = N - 1; d >= 0; d--) {
        from += (rest % shape.of[d]) * strides.of[d];
        rest /= shape.of[d];
    }
    out[i] = in[from];
}
void permute_0213(float* out, const float* in, int A, int B, int C, int D) {
    Strides<4> shape = {{A, C, B, D}}, strides = {{B * C * D, D, C * D, 1}};
    slice_kernel<4><<<CEIL_DIV(A * B * C * D, 64), 64>>>(out, in, shape, strides, A * B * C * D);
}
//@ case permute_0213
//@ call $(out, in, A, B, C, D);
//@ sizes A=2 B=3 C=5 D=7
//@ in in[A*B*C*D]
//@ out out[A*B*C*D]
//@ ref permute_0213

__global__ void pool_kernel(float* out, int* argmax, const float* in, int H, int W) {
    const int x = threadIdx.x, y = blockIdx.x, c = blockIdx.y, OW = W / 2, OH = H / 2;
    if (x >= OW) return;
    float best = -INFINITY;
    int at = 0;
    for (int dy = 0; dy < 2; dy++)
        for (int dx = 0; dx < 2; dx++) {
            int p = (2 * y + dy) * W + 2 * x + dx;
            if (in[c * H * W + p] > best) {
                best = in[c * H * W + p];
                at = p;
            }
        }
    out[(c * OH + y) * OW + x] = best;
    argmax[(c * OH + y) * OW + x] = at;
}
void max_pool2d(float* out, int* argmax, const float* in, int C, int H, int W) {
    pool_kernel<<<dim3(H / 2, C), 32>>>(out, argmax, in, H, W);
}
//@ case max_pool2d
//@ call $(out, argmax, in, C, H, W);
//@ sizes C=3 H=8 W=10
//@ in in[C*H*W]
//@ out out[C*(H/2)*(W/2)] argmax:i32[C*(H/2)*(W/2)]
//@ ref max_pool2d
