// Optimizers, norms of gradients, scaling of losses, random numbers by counters.
#include "common.cuh"

__device__ inline float lerp(float start, float end, float weight) { return fma(weight, end, fma(-weight, start, start)); }

template <typename Tp, typename Tg>
__global__ void adamw_kernel(Tp* params_memory, float* m_memory, float* v_memory, const Tg* grads_memory,
                             size_t num_parameters, float learning_rate, float beta1, float beta2,
                             float beta1_correction, float beta2_correction, float eps, float weight_decay,
                             float grad_scale) {
    size_t idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= num_parameters) return;
    float grad = grad_scale * (float)grads_memory[idx];
    float m = lerp(grad, m_memory[idx], beta1);
    m_memory[idx] = m;
    float v = lerp(grad * grad, v_memory[idx], beta2);
    v_memory[idx] = v;
    m /= beta1_correction;
    v /= beta2_correction;
    float old_param = (float)params_memory[idx];
    params_memory[idx] = (Tp)(old_param - (learning_rate * (m / (sqrtf(v) + eps) + weight_decay * old_param)));
}
template <typename Tp, typename Tg>
void adamw_update(Tp* params_memory, float* m_memory, float* v_memory, const Tg* grads_memory, size_t num_parameters,
                  float learning_rate, float beta1, float beta2, int t, float eps, float weight_decay, float grad_scale,
                  cudaStream_t stream) {
    int block_size = 512;
    int num_blocks = CEIL_DIV(num_parameters, block_size);
    float beta1_correction = 1.0f - powf(beta1, t), beta2_correction = 1.0f - powf(beta2, t);
    adamw_kernel<<<num_blocks, block_size, 0, stream>>>(params_memory, m_memory, v_memory, grads_memory, num_parameters,
                                                        learning_rate, beta1, beta2, beta1_correction, beta2_correction,
                                                        eps, weight_decay, grad_scale);
    CUDA_CHECK(cudaGetLastError());
}
//@ case adamw_update
//@ call adamw_update<float, float>(p, m, v, grads, n, 1e-2f, 0.9f, 0.95f, 3, 1e-8f, 0.1f, 0.5f, 0);
//@ sizes n=700
//@ in p0[n] m0[n] v0[n]+ grads[n]
//@ out p[n]=p0 m[n]=m0 v[n]=v0
//@ ref adamw_update
//@ case adamw_update:bf16
//@ call adamw_update<float, __nv_bfloat16>(p, m, v, grads, n, 1e-2f, 0.9f, 0.95f, 3, 1e-8f, 0.1f, 0.5f, 0);
//@ sizes n=300
//@ in p0[n] m0[n] v0[n]+ grads:bf16[n]
//@ out p[n]=p0 m[n]=m0 v[n]=v0
//@ ref adamw_update

template <typename F>
__global__ void foreach_kernel(int n, F f) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) f(i);
}
struct Sgd {
    float *p, *momentum;
    const float* g;
    float lr, mu;
    __device__ void operator()(int i) const {
        momentum[i] = mu * momentum[i] + g[i];
        p[i] -= lr * (g[i] + mu * momentum[i]);
    }
};
void sgd_nesterov(float* p, float* momentum, const float* g, int n, float lr, float mu) {
    foreach_kernel<<<3, 64>>>(n, Sgd{p, momentum, g, lr, mu});
}
//@ case sgd_nesterov
//@ call $(p, momentum, g, n, 0.125f, 0.875f);
//@ sizes n=300
//@ in p0[n] m0[n] g[n]
//@ out p[n]=p0 momentum[n]=m0
//@ ref sgd_nesterov

__global__ void lion_kernel(float* __restrict__ p, float* __restrict__ m, const float* __restrict__ g, int n, float lr,
                            float b1, float b2, float wd) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        const float c = b1 * m[i] + (1.f - b1) * g[i];
        p[i] = p[i] * (1.f - lr * wd) - lr * (c > 0.f ? 1.f : c < 0.f ? -1.f : 0.f);
        m[i] = b2 * m[i] + (1.f - b2) * g[i];
    }
}
void lion_step(float* p, float* m, const float* g, int n, float lr, float b1, float b2, float wd) {
    lion_kernel<<<CEIL_DIV(n, 128), 128>>>(p, m, g, n, lr, b1, b2, wd);
}
//@ case lion_step
//@ call $(p, m, g, n, 0.0625f, 0.875f, 0.75f, 0.125f);
//@ sizes n=300
//@ in p0[n] m0[n] g[n]
//@ out p[n]=p0 m[n]=m0
//@ ref lion_step

template <class T>
__device__ float global_norm_squared_for_range(const T* data, size_t count) {
    size_t index = blockIdx.x * blockDim.x + threadIdx.x, grid_width = blockDim.x * gridDim.x;
    float accumulator = 0.f;
    for (size_t i = index; i < count; i += grid_width) accumulator += (float)data[i] * (float)data[i];
    return block_reduce_sum(accumulator);
}
template <class T>
__global__ void global_norm_squared_kernel(float* out, const T* data, size_t count) {
    float block_sum = global_norm_squared_for_range(data, count);
    if (threadIdx.x == 0) out[blockIdx.x] = block_sum;
}
__global__ void global_sum_single_block_kernel(float* result, const float* values, size_t count) {
    float thread_sum = 0.0;
    for (size_t index = threadIdx.x; index < count; index += blockDim.x) thread_sum += values[index];
    float reduction = block_reduce_sum(thread_sum);
    if (threadIdx.x == 0) *result = reduction;
}
template <typename T>
void global_norm_squared(float* out, float* partial, const T* values, size_t count) {
    const int block_size = 128, grid_size = 4;
    global_norm_squared_kernel<<<grid_size, block_size>>>(partial, values, count);
    global_sum_single_block_kernel<<<1, 64>>>(out, partial, grid_size);
}
//@ case global_norm_squared
//@ call $(out, partial, values, (size_t)n);
//@ sizes n=1500
//@ in values[n]
//@ out out[1] partial[4]
//@ ref global_norm_squared

__global__ void clip_kernel(float* grads, const float* norm_squared, float max_norm, int n) {
    const float norm = sqrtf(*norm_squared), coefficient = fminf(1.0f, max_norm / (norm + 1e-6f));
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) grads[i] *= coefficient;
}
void clip_gradients(float* grads, const float* norm_squared, float max_norm, int n) {
    clip_kernel<<<2, 64>>>(grads, norm_squared, max_norm, n);
}
//@ case clip_gradients
//@ call $(grads, norm_squared, 0.5f, n);
//@ sizes n=200
//@ in g0[n] norm_squared[1]+
//@ out grads[n]=g0
//@ ref clip_gradients

__global__ void unscale_kernel(float* grads, int* found_inf, float inv_scale, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float g = grads[i];
    if (!isfinite(g)) atomicOr(found_inf, 1);
    grads[i] = g * inv_scale;
}
void unscale_gradients(float* grads, int* found_inf, float inv_scale, int n) {
    unscale_kernel<<<CEIL_DIV(n, 64), 64>>>(grads, found_inf, inv_scale, n);
}
//@ case unscale_gradients
//@ call $(grads, found_inf, 0.0078125f, n);
//@ sizes n=200
//@ in g0[n]
//@ out grads[n]=g0 found_inf:i32[1]=0
//@ ref unscale_gradients

__global__ void ema_kernel(float4* ema, const float4* params, float decay, int n4) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n4) {
        float4 e = ema[i], p = params[i];
        e.x = decay * e.x + (1 - decay) * p.x;
        e.y = decay * e.y + (1 - decay) * p.y;
        e.z = decay * e.z + (1 - decay) * p.z;
        e.w = decay * e.w + (1 - decay) * p.w;
        ema[i] = e;
    }
}
void ema_update(float4* ema, const float4* params, float decay, int n4) {
    ema_kernel<<<CEIL_DIV(n4, 64), 64>>>(ema, params, decay, n4);
}
//@ case ema_update
//@ call $((float4*)ema, (const float4*)params, 0.9375f, n4);
//@ sizes n4=60
//@ in e0[4*n4] params[4*n4]
//@ out ema[4*n4]=e0
//@ ref ema_update

// a number for each counter; squares
__host__ __device__ inline uint32_t squirrel_noise(uint32_t position, uint32_t seed) {
    uint32_t mangled = position;
    mangled *= 0xd2a80a3f;
    mangled += seed;
    mangled ^= mangled >> 9;
    mangled += 0xa884f197;
    mangled ^= mangled >> 11;
    mangled *= 0x6c736f4b;
    mangled ^= mangled >> 13;
    mangled += 0xb79f3abb;
    mangled ^= mangled >> 15;
    mangled += 0x1b56c4f5;
    mangled ^= mangled >> 17;
    return mangled;
}
__global__ void dropout_kernel(float* out, unsigned char* mask, const float* inp, float p, uint32_t seed, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float uniform = (squirrel_noise(i, seed) >> 8) * (1.0f / 16777216.0f);
    bool keep = uniform >= p;
    mask[i] = keep;
    out[i] = keep ? inp[i] / (1.0f - p) : 0.0f;
}
void dropout_forward(float* out, unsigned char* mask, const float* inp, float p, uint32_t seed, int n) {
    dropout_kernel<<<CEIL_DIV(n, 128), 128>>>(out, mask, inp, p, seed, n);
}
//@ case dropout_forward
//@ call unsigned char* mask; cudaMalloc(&mask, n); $(out, mask, inp, 0.25f, 1337, n);
//@ sizes n=500
//@ in inp[n]
//@ out out[n]
//@ ref dropout_forward

// Philox with ten rounds, four numbers a counter
__device__ inline uint4 philox(uint4 c, uint2 k) {
#pragma unroll
    for (int round = 0; round < 10; round++) {
        uint32_t hi0 = __umulhi(0xD2511F53u, c.x), lo0 = 0xD2511F53u * c.x;
        uint32_t hi1 = __umulhi(0xCD9E8D57u, c.z), lo1 = 0xCD9E8D57u * c.z;
        c = make_uint4(hi1 ^ c.y ^ k.x, lo1, hi0 ^ c.w ^ k.y, lo0);
        k.x += 0x9E3779B9u;
        k.y += 0xBB67AE85u;
    }
    return c;
}
__global__ void philox_dropout_kernel(float* out, const float* inp, float p, unsigned long long seed, int n4) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n4) return;
    uint4 r = philox(make_uint4(i, 0, 0, 0), make_uint2((uint32_t)seed, (uint32_t)(seed >> 32)));
    const float scale = 1.0f / (1.0f - p), u = 2.3283064e-10f;
    float4 x = reinterpret_cast<const float4*>(inp)[i];
    x.x = r.x * u > p ? x.x * scale : 0.f;
    x.y = r.y * u > p ? x.y * scale : 0.f;
    x.z = r.z * u > p ? x.z * scale : 0.f;
    x.w = r.w * u > p ? x.w * scale : 0.f;
    reinterpret_cast<float4*>(out)[i] = x;
}
void philox_dropout(float* out, const float* inp, float p, unsigned long long seed, int n) {
    philox_dropout_kernel<<<CEIL_DIV(n / 4, 32), 32>>>(out, inp, p, seed, n / 4);
}
//@ case philox_dropout
//@ call $(out, inp, 0.5f, 0x123456789abcULL, n);
//@ sizes n=400
//@ in inp[n]
//@ out out[n]
//@ ref philox_dropout
