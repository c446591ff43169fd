// Activations, their gradients, and fused forms.
#include "common.cuh"

#define GELU_SCALING_FACTOR sqrtf(2.0f / 3.14159265358979f)

__global__ void gelu_forward_kernel(floatX* out, const floatX* inp, int N) {
    int i = (blockIdx.x * blockDim.x + threadIdx.x) * x128::size;
    if (i < N) {
        x128 packed_out, packed_inp = load128(inp + i);
        for (int k = 0; k < (int)packed_inp.size; ++k) {
            float xi = (float)packed_inp[k];
            float cube = 0.044715f * xi * xi * xi;
            packed_out[k] = (floatX)(0.5f * xi * (1.0f + tanhf(GELU_SCALING_FACTOR * (xi + cube))));
        }
        store128(out + i, packed_out);
    }
}
void gelu_forward(floatX* out, const floatX* inp, int N, cudaStream_t stream) {
    const int block_size = 32;
    gelu_forward_kernel<<<CEIL_DIV(N, block_size * (int)x128::size), block_size, 0, stream>>>(out, inp, N);
}
//@ case gelu_forward
//@ call $(out, inp, N, 0);
//@ sizes N=640
//@ in inp[N]
//@ out out[N]
//@ ref gelu_forward

__global__ void gelu_backward_kernel(float* dinp, const float* inp, const float* dout, int N) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N) {
        float x = inp[i], cube = 0.044715f * x * x * x;
        float tanh_arg = GELU_SCALING_FACTOR * (x + cube), tanh_out = tanhf(tanh_arg);
        float coshf_out = coshf(tanh_arg), sech_out = 1.0f / (coshf_out * coshf_out);
        float local = 0.5f * (1.0f + tanh_out) + x * 0.5f * sech_out * GELU_SCALING_FACTOR * (1.0f + 3.0f * 0.044715f * x * x);
        dinp[i] = local * dout[i];
    }
}
void gelu_backward(float* dinp, const float* inp, const float* dout, const int N) {
    gelu_backward_kernel<<<CEIL_DIV(N, 128), 128>>>(dinp, inp, dout, N);
}
//@ case gelu_backward
//@ call $(dinp, inp, dout, N);
//@ sizes N=300
//@ in inp[N] dout[N]
//@ out dinp[N]
//@ ref gelu_backward

__device__ __forceinline__ float sigmoidf(float x) { return 1.0f / (1.0f + __expf(-x)); }

__global__ void silu_kernel(float4* __restrict__ y, const float4* __restrict__ x, int n4) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n4; i += blockDim.x * gridDim.x) {
        float4 v = x[i];
        v.x *= sigmoidf(v.x);
        v.y *= sigmoidf(v.y);
        v.z *= sigmoidf(v.z);
        v.w *= sigmoidf(v.w);
        y[i] = v;
    }
}
void silu(float* y, const float* x, int n) {
    silu_kernel<<<2, 64>>>(reinterpret_cast<float4*>(y), reinterpret_cast<const float4*>(x), n / 4);
}
//@ case silu
//@ call $(y, x, n);
//@ sizes n=640
//@ in x[n]
//@ out y[n]
//@ ref silu

template <typename scalar_t>
__global__ void swiglu_forward_kernel(scalar_t* out, const scalar_t* gate_up, int rows, int hidden) {
    const int row = blockIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
    if (col >= hidden) return;
    const float gate = static_cast<float>(gate_up[(size_t)row * 2 * hidden + col]);
    const float up = static_cast<float>(gate_up[(size_t)row * 2 * hidden + hidden + col]);
    out[(size_t)row * hidden + col] = static_cast<scalar_t>(gate * sigmoidf(gate) * up);
}
template <typename scalar_t>
void swiglu_forward(scalar_t* out, const scalar_t* gate_up, int rows, int hidden, cudaStream_t stream) {
    const dim3 grid(CEIL_DIV(hidden, 64), rows);
    swiglu_forward_kernel<scalar_t><<<grid, 64, 0, stream>>>(out, gate_up, rows, hidden);
}
//@ case swiglu_forward
//@ call $<float>(out, gate_up, rows, hidden, 0);
//@ sizes rows=5 hidden=70
//@ in gate_up[rows*2*hidden]
//@ out out[rows*hidden]
//@ ref swiglu_forward
//@ case swiglu_forward:f16
//@ call swiglu_forward<half>(out, gate_up, rows, hidden, 0);
//@ sizes rows=5 hidden=70
//@ in gate_up:f16[rows*2*hidden]
//@ out out:f16[rows*hidden]
//@ ref swiglu_forward
//@ tol 2e-3

__global__ void swiglu_backward_kernel(float* dgate, float* dup, const float* dout, const float* gate,
                                       const float* up, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float s = sigmoidf(gate[i]), g = gate[i] * s;
    dup[i] = dout[i] * g;
    dgate[i] = dout[i] * up[i] * s * (1.0f + gate[i] * (1.0f - s));
}
void swiglu_backward(float* dgate, float* dup, const float* dout, const float* gate, const float* up, int n) {
    swiglu_backward_kernel<<<CEIL_DIV(n, 128), 128>>>(dgate, dup, dout, gate, up, n);
}
//@ case swiglu_backward
//@ call $(dgate, dup, dout, gate, up, n);
//@ sizes n=300
//@ in dout[n] gate[n] up[n]
//@ out dgate[n] dup[n]
//@ ref swiglu_backward

// an operation as a function object or a lambda
template <typename Op>
__global__ void unary_kernel(float* out, const float* inp, int n, Op op) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = op(inp[i]);
}
struct SquaredRelu {
    __device__ float operator()(float x) const {
        float r = fmaxf(x, 0.0f);
        return r * r;
    }
};
#define LAUNCH_UNARY(OP, ...) unary_kernel<<<CEIL_DIV(n, 96), 96>>>(out, inp, n, OP{__VA_ARGS__})
void relu_squared(float* out, const float* inp, int n) { LAUNCH_UNARY(SquaredRelu); }
//@ case relu_squared
//@ call $(out, inp, n);
//@ sizes n=300
//@ in inp[n]
//@ out out[n]
//@ ref relu_squared

struct LeakyRelu {
    float slope;
    __device__ float operator()(float x) const { return x > 0.0f ? x : slope * x; }
};
void leaky_relu(float* out, const float* inp, float slope, int n) { LAUNCH_UNARY(LeakyRelu, slope); }
//@ case leaky_relu
//@ call $(out, inp, 0.125f, n);
//@ sizes n=300
//@ in inp[n]
//@ out out[n]
//@ ref leaky_relu

// two numbers at a time
__global__ void quick_gelu_kernel(half2* out, const half2* inp, int n2) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n2) {
        float2 v = __half22float2(inp[i]);
        v.x = v.x / (1.0f + expf(-1.702f * v.x));
        v.y = v.y / (1.0f + expf(-1.702f * v.y));
        out[i] = __float22half2_rn(v);
    }
}
void quick_gelu(half* out, const half* inp, int n) {
    quick_gelu_kernel<<<CEIL_DIV(n / 2, 64), 64>>>((half2*)out, (const half2*)inp, n / 2);
}
//@ case quick_gelu
//@ call $(out, inp, n);
//@ sizes n=300
//@ in inp:f16[n]
//@ out out:f16[n]
//@ ref quick_gelu
//@ tol 2e-3

__global__ void bias_gelu_kernel(__nv_bfloat16* out, const __nv_bfloat16* inp, const __nv_bfloat16* bias, int rows, int cols) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < rows * cols; i += gridDim.x * blockDim.x) {
        float x = __bfloat162float(inp[i]) + __bfloat162float(bias[i % cols]);
        out[i] = __float2bfloat16(x * 0.5f * (1.0f + erff(x * 0.70710678f)));
    }
}
void bias_gelu(__nv_bfloat16* out, const __nv_bfloat16* inp, const __nv_bfloat16* bias, int rows, int cols) {
    bias_gelu_kernel<<<3, 64>>>(out, inp, bias, rows, cols);
}
//@ case bias_gelu
//@ call $(out, inp, bias, rows, cols);
//@ sizes rows=5 cols=33
//@ in inp:bf16[rows*cols] bias:bf16[cols]
//@ out out:bf16[rows*cols]
//@ ref bias_gelu
//@ tol 1e-2
