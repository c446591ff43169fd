// Attention in steps and tiled, rotary embeddings, permutes.
#include "common.cuh"

__global__ void permute_kernel(float* q, float* k, float* v, const float* inp, int B, int N, int NH, int d) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= B * NH * N * d) return;
    int b = idx / (NH * N * d), rest = idx % (NH * N * d);
    int nh_ = rest / (N * d);
    rest = rest % (N * d);
    int n = rest / d, d_ = rest % d;
    int inp_idx = (b * N * 3 * NH * d) + (n * 3 * NH * d) + (0 * NH * d) + (nh_ * d) + d_;
    q[idx] = __ldcs(&inp[inp_idx]);
    k[idx] = __ldcs(&inp[inp_idx + NH * d]);
    v[idx] = __ldcs(&inp[inp_idx + 2 * (NH * d)]);
}
void permute_qkv(float* q, float* k, float* v, const float* inp, int B, int T, int NH, int HS) {
    permute_kernel<<<CEIL_DIV(B * T * NH * HS, 256), 256>>>(q, k, v, inp, B, T, NH, HS);
}
//@ case permute_qkv
//@ call $(q, k, v, inp, B, T, NH, HS);
//@ sizes B=2 T=7 NH=3 HS=8
//@ in inp[B*T*3*NH*HS]
//@ out q[B*T*NH*HS] k[B*T*NH*HS] v[B*T*NH*HS]
//@ ref permute_qkv

__global__ void unpermute_kernel(const float* inp, float* out, int B, int N, int NH, int d) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx < B * NH * N * d) {
        int b = idx / (NH * N * d), rest = idx % (NH * N * d);
        int nh_ = rest / (N * d);
        rest = rest % (N * d);
        int n = rest / d, d_ = rest % d;
        out[(b * NH * N * d) + (n * NH * d) + (nh_ * d) + d_] = __ldcs(&inp[idx]);
    }
}
void unpermute_heads(float* out, const float* inp, int B, int T, int NH, int HS) {
    unpermute_kernel<<<CEIL_DIV(B * T * NH * HS, 256), 256>>>(inp, out, B, T, NH, HS);
}
//@ case unpermute_heads
//@ call $(out, inp, B, T, NH, HS);
//@ sizes B=2 T=7 NH=3 HS=8
//@ in inp[B*NH*T*HS]
//@ out out[B*T*NH*HS]
//@ ref unpermute_heads

__global__ void attention_query_key_kernel1(float* preatt, const float* inp, int B, int T, int C, int NH) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx < B * NH * T * T) {
        int t2 = idx % T, t = (idx / T) % T;
        if (t2 > t) {
            preatt[idx] = -INFINITY;
            return;
        }
        int h = (idx / (T * T)) % NH, b = idx / (NH * T * T), C3 = C * 3, hs = C / NH;
        const float* query_t = inp + b * T * C3 + t * C3 + h * hs;
        const float* key_t2 = inp + b * T * C3 + t2 * C3 + h * hs + C;
        float val = 0.0f;
        for (int i = 0; i < hs; i++) val += query_t[i] * key_t2[i];
        preatt[idx] = val * (1.0f / sqrtf(hs));
    }
}
__global__ void attention_softmax_kernel1(float* att, const float* preatt, int B, int T, int NH) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx < B * T * NH) {
        int h = idx % NH, t = (idx / NH) % T, b = idx / (NH * T);
        const float* preatt_bth = preatt + b * NH * T * T + h * T * T + t * T;
        float* att_bth = att + b * NH * T * T + h * T * T + t * T;
        float maxval = -FLT_MAX;
        for (int t2 = 0; t2 <= t; t2++) maxval = fmaxf(maxval, preatt_bth[t2]);
        float expsum = 0.0f;
        for (int t2 = 0; t2 <= t; t2++) {
            float expv = expf(preatt_bth[t2] - maxval);
            expsum += expv;
            att_bth[t2] = expv;
        }
        float inv = expsum == 0.0f ? 0.0f : 1.0f / expsum;
        for (int t2 = 0; t2 < T; t2++) att_bth[t2] = t2 <= t ? att_bth[t2] * inv : 0.0f;
    }
}
__global__ void attention_value_kernel1(float* out, const float* att, const float* inp, int B, int T, int C, int NH) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx < B * T * NH) {
        int h = idx % NH, t = (idx / NH) % T, b = idx / (NH * T), C3 = C * 3, hs = C / NH;
        float* out_bth = out + b * T * C + t * C + h * hs;
        const float* att_bth = att + b * NH * T * T + h * T * T + t * T;
        for (int i = 0; i < hs; i++) out_bth[i] = 0.0f;
        for (int t2 = 0; t2 <= t; t2++) {
            const float* value_t2 = inp + b * T * C3 + t2 * C3 + h * hs + C * 2;
            for (int i = 0; i < hs; i++) out_bth[i] += att_bth[t2] * value_t2[i];
        }
    }
}
void attention_forward1(float* out, float* preatt, float* att, const float* inp, int B, int T, int C, int NH,
                        const int block_size) {
    int total = B * NH * T * T;
    attention_query_key_kernel1<<<CEIL_DIV(total, block_size), block_size>>>(preatt, inp, B, T, C, NH);
    total = B * T * NH;
    attention_softmax_kernel1<<<CEIL_DIV(total, block_size), block_size>>>(att, preatt, B, T, NH);
    attention_value_kernel1<<<CEIL_DIV(total, block_size), block_size>>>(out, att, inp, B, T, C, NH);
}
//@ case attention_forward1
//@ call float* preatt; cudaMalloc(&preatt, B * NH * T * T * sizeof(float)); $(out, preatt, att, inp, B, T, C, NH, 64);
//@ sizes B=2 T=9 C=24 NH=3
//@ in inp[B*T*3*C]
//@ out out[B*T*C] att[B*NH*T*T]
//@ ref attention_forward

// tiles of keys and values in shared memory, online softmax
__global__ void flash_attention_kernel(const float* Q, const float* K, const float* V, int N, int d, int Tc, int Tr,
                                       int Bc, int Br, float softmax_scale, float* l, float* m, float* O) {
    int tx = threadIdx.x, bx = blockIdx.x, by = blockIdx.y;
    int qkv_offset = (bx * gridDim.y * N * d) + (by * N * d), lm_offset = (bx * gridDim.y * N) + (by * N);
    extern __shared__ float sram[];
    int tile_size = Bc * d;
    float *Qi = sram, *Kj = &sram[tile_size], *Vj = &sram[tile_size * 2], *S = &sram[tile_size * 3];
    for (int j = 0; j < Tc; j++) {
        for (int x = 0; x < d; x++) {
            Kj[(tx * d) + x] = K[qkv_offset + (tile_size * j) + (tx * d) + x];
            Vj[(tx * d) + x] = V[qkv_offset + (tile_size * j) + (tx * d) + x];
        }
        __syncthreads();
        for (int i = j; i < Tr; i++) {
            for (int x = 0; x < d; x++) Qi[(tx * d) + x] = Q[qkv_offset + (tile_size * i) + (tx * d) + x];
            float row_m_prev = m[lm_offset + (Br * i) + tx], row_l_prev = l[lm_offset + (Br * i) + tx];
            float row_m = -INFINITY;
            for (int y = 0; y < Bc; y++) {
                if (i * Br + tx < j * Bc + y) break;
                float sum = 0;
                for (int x = 0; x < d; x++) sum += Qi[(tx * d) + x] * Kj[(y * d) + x];
                sum *= softmax_scale;
                S[(Bc * tx) + y] = sum;
                if (sum > row_m) row_m = sum;
            }
            float row_l = 0;
            for (int y = 0; y < Bc; y++) {
                if (i * Br + tx < j * Bc + y) break;
                S[(Bc * tx) + y] = __expf(S[(Bc * tx) + y] - row_m);
                row_l += S[(Bc * tx) + y];
            }
            float row_m_new = max(row_m_prev, row_m);
            float row_l_new = (__expf(row_m_prev - row_m_new) * row_l_prev) + (__expf(row_m - row_m_new) * row_l);
            for (int x = 0; x < d; x++) {
                float pv = 0;
                for (int y = 0; y < Bc; y++) {
                    if (i * Br + tx < j * Bc + y) break;
                    pv += S[(Bc * tx) + y] * Vj[(y * d) + x];
                }
                float* o = &O[qkv_offset + (tile_size * i) + (tx * d) + x];
                *o = (1 / row_l_new) * ((row_l_prev * __expf(row_m_prev - row_m_new) * *o) + (__expf(row_m - row_m_new) * pv));
            }
            m[lm_offset + (Br * i) + tx] = row_m_new;
            l[lm_offset + (Br * i) + tx] = row_l_new;
        }
        __syncthreads();
    }
}
__global__ void fill_kernel(float* m, float value, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) m[i] = value;
}
void flash_attention(float* out, float* l, float* m, const float* q, const float* k, const float* v, int B, int NH,
                     int T, int HS) {
    const int Bc = 4, Br = 4;
    const int n = B * NH * T;
    cudaMemset(l, 0, n * sizeof(float));
    cudaMemset(out, 0, n * HS * sizeof(float));
    fill_kernel<<<CEIL_DIV(n, 64), 64>>>(m, -1e30f, n);
    const int sram_size = (3 * Bc * HS + Bc * Br) * sizeof(float);
    dim3 grid_dim(B, NH), block_dim(Bc);
    flash_attention_kernel<<<grid_dim, block_dim, sram_size>>>(q, k, v, T, HS, T / Bc, T / Br, Bc, Br, 1.0f / sqrtf(HS), l, m, out);
}
//@ case flash_attention
//@ call $(out, l, m, q, k, v, B, NH, T, HS);
//@ sizes B=1 NH=2 T=12 HS=8
//@ in q[B*NH*T*HS] k[B*NH*T*HS] v[B*NH*T*HS]
//@ out out[B*NH*T*HS] l[B*NH*T] m[B*NH*T]
//@ ref flash_attention
//@ tol 2e-5

// a block a row of the scores
__global__ void attention_dscores_kernel(float* dpreatt, const float* datt, const float* att, int T, float scale) {
    const int row = blockIdx.x, t = row % T;
    const float *a = att + row * T, *da = datt + row * T;
    float local = 0.0f;
    for (int i = threadIdx.x; i <= t; i += blockDim.x) local += a[i] * da[i];
    local = block_reduce_sum(local);
    for (int i = threadIdx.x; i < T; i += blockDim.x)
        dpreatt[row * T + i] = i <= t ? scale * a[i] * (da[i] - local) : 0.0f;
}
void attention_dscores(float* dpreatt, const float* datt, const float* att, int B, int NH, int T, float scale) {
    attention_dscores_kernel<<<B * NH * T, 32>>>(dpreatt, datt, att, T, scale);
}
//@ case attention_dscores
//@ call $(dpreatt, datt, att, B, NH, T, 0.5f);
//@ sizes B=1 NH=2 T=11
//@ in datt[B*NH*T*T] att[B*NH*T*T]
//@ out dpreatt[B*NH*T*T]
//@ ref attention_dscores

// dq, dk, dv of one head a block; scores are computed again
__global__ void attention_backward_kernel(float* dq, float* dk, float* dv, const float* dout, const float* q,
                                          const float* k, const float* v, const float* lse, const float* delta, int T,
                                          int HS) {
    const int head = blockIdx.x, t = threadIdx.x;
    const size_t base = (size_t)head * T * HS;
    if (t >= T) return;
    const float scale = rsqrtf((float)HS);
    for (int s = 0; s < T; s++) {
        if (s <= t) {
            float score = 0.f, dp = 0.f;
            for (int i = 0; i < HS; i++) {
                score += q[base + t * HS + i] * k[base + s * HS + i];
                dp += dout[base + t * HS + i] * v[base + s * HS + i];
            }
            const float p = expf(score * scale - lse[head * T + t]), ds = p * (dp - delta[head * T + t]) * scale;
            for (int i = 0; i < HS; i++) {
                dq[base + t * HS + i] += ds * k[base + s * HS + i];
                atomicAdd(&dk[base + s * HS + i], ds * q[base + t * HS + i]);
                atomicAdd(&dv[base + s * HS + i], p * dout[base + t * HS + i]);
            }
        }
    }
}
void attention_backward(float* dq, float* dk, float* dv, const float* dout, const float* q, const float* k,
                        const float* v, const float* lse, const float* delta, int B, int NH, int T, int HS) {
    const size_t bytes = (size_t)B * NH * T * HS * sizeof(float);
    for (float* grad : {dq, dk, dv}) cudaMemset(grad, 0, bytes);
    attention_backward_kernel<<<B * NH, 32>>>(dq, dk, dv, dout, q, k, v, lse, delta, T, HS);
}
//@ case attention_backward
//@ call $(dq, dk, dv, dout, q, k, v, lse, delta, B, NH, T, HS);
//@ sizes B=1 NH=2 T=9 HS=8
//@ in dout[B*NH*T*HS] q[B*NH*T*HS] k[B*NH*T*HS] v[B*NH*T*HS] lse[B*NH*T] delta[B*NH*T]
//@ out dq[B*NH*T*HS] dk[B*NH*T*HS] dv[B*NH*T*HS]
//@ ref attention_backward
//@ tol 2e-4

// pairs beside each other, angles by position
__global__ void rope_kernel(float* out, const float* x, int T, int NH, int HS, float base, bool backward) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    const int half_dim = HS / 2;
    const int pair = i % half_dim, h = (i / half_dim) % NH, t = (i / (half_dim * NH)) % T, b = i / (half_dim * NH * T);
    const size_t at = (((size_t)b * T + t) * NH + h) * HS + 2 * pair;
    float freq = 1.0f / powf(base, (float)(2 * pair) / HS), sin_t, cos_t;
    sincosf(t * freq, &sin_t, &cos_t);
    if (backward) sin_t = -sin_t;
    float2 v = *reinterpret_cast<const float2*>(x + at);
    *reinterpret_cast<float2*>(out + at) = make_float2(v.x * cos_t - v.y * sin_t, v.x * sin_t + v.y * cos_t);
}
void rope_forward(float* out, const float* x, int B, int T, int NH, int HS) {
    rope_kernel<<<B * T * NH * HS / 2 / 32, 32>>>(out, x, T, NH, HS, 10000.0f, false);
}
void rope_backward(float* dx, const float* dout, int B, int T, int NH, int HS) {
    rope_kernel<<<B * T * NH * HS / 2 / 32, 32>>>(dx, dout, T, NH, HS, 10000.0f, true);
}
//@ case rope_forward
//@ call $(out, x, B, T, NH, HS);
//@ sizes B=2 T=8 NH=2 HS=16
//@ in x[B*T*NH*HS]
//@ out out[B*T*NH*HS]
//@ ref rope_forward
//@ case rope_backward
//@ call $(dx, dout, B, T, NH, HS);
//@ sizes B=2 T=8 NH=2 HS=16
//@ in dout[B*T*NH*HS]
//@ out dx[B*T*NH*HS]
//@ ref rope_backward

// a table of angles, halves rotated, in bfloat16
__global__ void rope_table_kernel(__nv_bfloat16* q, const float* cos, const float* sin, int heads, int head_dim) {
    const int token = blockIdx.x, half_dim = head_dim / 2;
    for (int i = threadIdx.x; i < heads * half_dim; i += blockDim.x) {
        const int h = i / half_dim, c = i % half_dim;
        __nv_bfloat16* row = q + ((size_t)token * heads + h) * head_dim;
        float a = __bfloat162float(row[c]), b = __bfloat162float(row[c + half_dim]);
        float cs = cos[token * head_dim + c], sn = sin[token * head_dim + c];
        row[c] = __float2bfloat16(a * cs - b * sn);
        row[c + half_dim] = __float2bfloat16(b * cs + a * sn);
    }
}
void rope_inplace(__nv_bfloat16* q, const float* cos, const float* sin, int seq_len, int heads, int head_dim,
                  cudaStream_t stream) {
    rope_table_kernel<<<seq_len, 64, 0, stream>>>(q, cos, sin, heads, head_dim);
}
//@ case rope_inplace
//@ call $(q, cos, sin, seq_len, heads, head_dim, 0);
//@ sizes seq_len=6 heads=2 head_dim=16
//@ in before:bf16[seq_len*heads*head_dim] cos[seq_len*head_dim] sin[seq_len*head_dim]
//@ out q:bf16[seq_len*heads*head_dim]=before
//@ ref rope_inplace
//@ tol 1e-2
