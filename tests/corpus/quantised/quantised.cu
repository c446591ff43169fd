// Numbers that are rounded on purpose, as libraries of quantisation and optimisers write it. `form` chooses a version.
#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

constexpr int kThreads = 128;
enum Form { kBase, kDivided, kInverse, kReversed, kFused, kScale = 10, kAxis, kCut, kClamp, kMean, kRate, kBias };

template <class Op>
__device__ float block_reduce(float v, Op op) {
    __shared__ float partial[kThreads / 32];
    for (int o = 16; o > 0; o >>= 1) v = op(v, __shfl_xor_sync(0xffffffff, v, o));
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = v;
    __syncthreads();
    v = partial[0];
    for (int w = 1; w < kThreads / 32; w++) v = op(v, partial[w]);
    __syncthreads();
    return v;
}

// int8 by the largest magnitude of a row, and back.
__global__ void quantise_rows(const float* x, int8_t* q, float* scales, float* y, int cols, int form) {
    const float* row = x + (form == kAxis ? 0 : blockIdx.x * cols);
    float m = 0.0f;
    for (int c = threadIdx.x; c < cols; c += kThreads) m = fmaxf(m, fabsf(row[c]));
    m = block_reduce(m, [](float a, float b) { return fmaxf(a, b); });
    float scale = m / (form == kScale ? 128.0f : 127.0f);
    float inverse = form == kInverse ? 127.0f / m : 1.0f / scale;
    row = x + blockIdx.x * cols;
    for (int c = threadIdx.x; c < cols; c += kThreads) {
        float v = form == kDivided ? row[c] / scale : row[c] * inverse;
        v = form == kCut ? truncf(v) : rintf(v);
        v = fminf(fmaxf(v, -127.0f), form == kClamp ? 126.0f : 127.0f);
        int8_t code = static_cast<int8_t>(v);
        q[blockIdx.x * cols + c] = code;
        y[blockIdx.x * cols + c] = code * scale;
    }
    if (threadIdx.x == 0) scales[blockIdx.x] = scale;
}

// Three values by the mean magnitude of a row, and their sum.
__global__ void ternary_rows(const float* x, float* w, float* sums, int cols, int form) {
    const float* row = x + blockIdx.x * cols;
    float m = 0.0f;
    for (int at = threadIdx.x; at < cols; at += kThreads) m += fabsf(row[form == kReversed ? cols - 1 - at : at]);
    auto add = [](float a, float b) { return a + b; };
    float scale = block_reduce(m, add) / (form == kMean ? cols - 1 : cols) + 1e-5f;
    float sum = 0.0f;
    for (int c = threadIdx.x; c < cols; c += kThreads) {
        float v = fminf(fmaxf(rintf(row[c] / scale), -1.0f), 1.0f) * scale;
        w[blockIdx.x * cols + c] = v;
        sum += v;
    }
    sum = block_reduce(sum, add);
    if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

__device__ uint32_t noise(uint32_t position) {
    uint32_t m = position * 0xb5297a4du + 1234u;
    m ^= m >> 8; m += 0x68e31da4u; m ^= m << 8; m *= 0x1b56c4e9u;
    return m ^ (m >> 8);
}

// A step with momentum whose parameters in bfloat16 are rounded at random: by noise that is added to the number, or to
// its bits.
__global__ void step_rows(__nv_bfloat16* p, const float* x, int cols, bool by_bits, int form) {
    for (int c = threadIdx.x; c < cols; c += kThreads) {
        int i = blockIdx.x * cols + c;
        float before = x[i], gradient = 0.25f * before * before;
        float momentum = form == kFused ? fmaf(0.9f, before, gradient) : 0.9f * before + gradient;
        float w = before - (form == kRate ? 0.1f : 0.01f) * momentum;
        if (by_bits) {
            uint32_t bits = __float_as_uint(w) + (noise(i) & (form == kBias ? 0x7fffu : 0xffffu));
            p[i] = __float2bfloat16_rn(__uint_as_float(bits & 0xffff0000u));
        } else {
            float u = (noise(i) >> 8) * (1.0f / 16777216.0f) - (form == kBias ? 0.25f : 0.5f);
            p[i] = __float2bfloat16_rn(w + u * fabsf(w) * 0.00390625f);
        }
    }
}

void quantise(const float* x, int8_t* q, float* scales, float* y, float* w, float* sums, int rows, int cols, int form) {
    quantise_rows<<<rows, kThreads>>>(x, q, scales, y, cols, form);
    ternary_rows<<<rows, kThreads>>>(x, w, sums, cols, form);
}
void step(__nv_bfloat16* p, const float* x, int rows, int cols, bool by_bits, int form) {
    step_rows<<<rows, kThreads>>>(p, x, cols, by_bits, form);
}
