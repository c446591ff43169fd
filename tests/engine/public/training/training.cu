// The main program of a trainer with its kernels: packed loads, host code with casts, assertions about bf16.
#ifndef FACTOR
#define FACTOR 1.0f
#endif
#include "training.cuh"
namespace cg = cooperative_groups;
__global__ void gelu_forward_kernel2(floatX* out, const floatX* inp) {
    int idx = (blockIdx.x * blockDim.x + threadIdx.x) * x128::size;
    x128 packed_out, packed_inp = load128(inp + idx);
    for (int k = 0; k < packed_inp.size; ++k) {
        float xi = (float)packed_inp[k];
        float cube = 0.044715f * xi * xi * xi;
        packed_out[k] = (floatX)(FACTOR * 0.5f * xi * (1.0f + tanhf(sqrtf(2.0f / M_PI) * (xi + cube))));
    }
    store128(out + idx, packed_out);
}
template <typename Tp, typename Tg>
__device__ void adamw_update(Tp* params, float* master, const Tg* grads, float lr, unsigned int seed, size_t n) {
    size_t idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= n) return;
    float grad = (float)grads[idx];
    float old = master != NULL ? master[idx] : (float)params[idx];
    float param = old - lr * grad / (sqrtf(grad * grad) + 1e-8f);
    stochastic_rounding(param, &params[idx], seed);
    if (master != NULL) master[idx] = param;
}
template <typename Tp, typename Tg>
__global__ void adamw_kernel3(Tp* params, float* master, const Tg* grads, float lr, unsigned int seed, size_t n) {
    adamw_update(params, master, grads, lr, seed, n);
}
__global__ void widen_kernel(float* y, const floatX* x, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = (float)x[i]; }
template<typename T> __device__ inline float warpReduceSum(float val) {
    for (int offset = 16; offset > 0; offset /= 2) val += __shfl_xor_sync(0xFFFFFFFF, val, offset);
    return val;
}
using reduction_func_t = float (*) (float);
template<reduction_func_t warp_reduction>
__device__ inline float blockReduce(float val, bool final_sync=false, float out_of_bounds=0.0f) {
    __shared__ float shared_val[32];
    const int lane_id = threadIdx.x % 32, warp_id = threadIdx.x / 32, num_warps = blockDim.x / 32;
    float warp_val = warp_reduction(val);
    if (lane_id == 0) { shared_val[warp_id] = warp_val; }
    __syncthreads();
    warp_val = (lane_id < num_warps) ? shared_val[lane_id] : out_of_bounds;
    float block_val = warp_reduction(warp_val);
    if (final_sync) __syncthreads();
    return block_val;
}
template<class T> __global__ void global_norm_squared_kernel(float* out, const T* data, size_t count) {
    float accumulator = 0.f;
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += blockDim.x * gridDim.x) accumulator += FACTOR * (float)data[i] * (float)data[i];
    float block_sum = blockReduce<warpReduceSum<float>>(accumulator);
    if (threadIdx.x == 0) out[blockIdx.x] = block_sum;
}
__global__ void layernorm_forward_kernel6(floatX* out, float* mean, float* rstd, const floatX* inp, const floatX* weight, int N, int C) {
    extern __shared__ char* params[];
    x128* s_weight = reinterpret_cast<x128*>(params);
    x128* s_in = reinterpret_cast<x128*>(params) + ((1 + threadIdx.y) * C / x128::size);
    int sidx = (threadIdx.x + 32 * threadIdx.y) * x128::size;
    for (int i = sidx; i < C; i += blockDim.y * 32 * x128::size) s_weight[i/x128::size] = load128(weight + i);
    __syncthreads();
    int idx = blockIdx.x * blockDim.y + threadIdx.y;
    if (idx >= N) return;
    inp += idx * C; out += idx * C;
    const float eps = 1e-5f;
    float sum = 0.0f;
    for (int c = threadIdx.x * x128::size; c < C; c += 32 * x128::size) {
        const x128 in_data = load128(inp + c);
        for (int k = 0; k < x128::size; ++k) sum += (float)in_data[k];
        s_in[c / x128::size] = in_data;
    }
    sum = warpReduceSum<float>(sum);
    float m = sum / C, v = 0.f;
    for (int c = threadIdx.x * x128::size; c < C; c += 32 * x128::size) {
        const x128 in_data = s_in[c / x128::size];
        for (int k = 0; k < x128::size; ++k) v += ((float)in_data[k] - m) * ((float)in_data[k] - m);
    }
    v = warpReduceSum<float>(v) / C;
    float s = rsqrtf(v + eps);
    for (int c = threadIdx.x * x128::size; c < C; c += 32 * x128::size) {
        const x128 in_data = s_in[c / x128::size];
        const x128 w = s_weight[c / x128::size];
        x128 out_data;
        for (int k = 0; k < x128::size; ++k) out_data[k] = (floatX)(FACTOR * s * ((float)in_data[k] - m) * (float)w[k]);
        store128cs(out + c, out_data);
    }
}
template<bool Approx> __global__ void scale_typed(floatX* x, int n) {
#ifndef USE_FP32
    static_assert(sizeof(floatX) == 2, "only 16 bit floats are supported here");
#endif
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = (floatX)((float)x[i] * 2.0f * FACTOR);
}
template<class T> __device__ void only_two_bytes(T* x) {
    static_assert(sizeof(T) == 2, "atomicAddX works on 16 bit types");
}
typedef struct { float* acts; int4* encoder_info; void* bucket; } Model;
void gpt2_host_only(Model* model, int num) {
    void* workload = malloc(num * sizeof(int4));
    int4* info = (int4*)workload;
    for (int i = 0; i < num; i++) { info[i].x = i; info[i].y = 2; info[i].z = 3; info[i].w = 0; }
    model->encoder_info = reinterpret_cast<int4*>(model->bucket);
    cudaMemcpyAsync(model->encoder_info, workload, num * sizeof(int4), cudaMemcpyHostToDevice);
}
int model_from_checkpoint(Model* model, const char* path) {
    FILE* f = fopen(path, "rb"); int header[256];
    fread(header, sizeof(int), 256, f);
    void* params = malloc(1000); fread(params, 1, 1000, f);
    float* values = (float*)params; unsigned first = *(unsigned*)&values[0];
    fclose(f); return first == 0x7fc00000u;
}
int main(int argc, char** argv) { Model m; gpt2_host_only(&m, 3); return 0; }
void to_x(floatX* d, const float* s, int n) { copy_and_cast_kernel<<<(n + 31) / 32, 32>>>(d, s, n); }
void run_gelu(float* y, const float* x, int n) {
    floatX *a, *b; cudaMallocCheck(&a, n * sizeof(floatX)); cudaMallocCheck(&b, n * sizeof(floatX));
    to_x(a, x, n);
    gelu_forward_kernel2<<<1, n / x128::size>>>(b, a);
    widen_kernel<<<n / 32, 32>>>(y, b, n);
}
void run_scale(float* y, const float* x, int n) {
    floatX *a; cudaMalloc((void**)&a, n * sizeof(floatX)); to_x(a, x, n);
#ifndef USE_FP32
    scale_typed<true><<<n / 32, 32>>>(a, n);
#endif
    widen_kernel<<<n / 32, 32>>>(y, a, n);
}
void run_norm(float* y, const float* x, int n) {
    floatX *a; cudaMalloc((void**)&a, n * sizeof(floatX)); to_x(a, x, n);
    global_norm_squared_kernel<<<4, 64>>>(y, a, n); cudaMemset(y + 4, 0, (n - 4) * sizeof(float));
}
void run_ln(float* y, const float* x, int n) {
    floatX *a, *b; cudaMalloc((void**)&a, n * sizeof(floatX)); cudaMalloc((void**)&b, n * sizeof(floatX)); to_x(a, x, n);
    int C = n / 4; size_t smem = (1 + 2) * C * sizeof(floatX);
    layernorm_forward_kernel6<<<2, dim3(32, 2), smem>>>(b, nullptr, nullptr, a, a, 4, C);
    widen_kernel<<<n / 32, 32>>>(y, b, n);
}
void run_adam(float* y, const float* x, int n) {
    floatX *a; float* m; cudaMalloc((void**)&a, n * sizeof(floatX)); cudaMalloc((void**)&m, n * sizeof(float));
    to_x(a, x, n); cudaMemcpy(m, x, n * sizeof(float), cudaMemcpyDeviceToDevice);
    adamw_kernel3<<<n / 32, 32>>>(a, m, x, 0.01f, 42u, n);
    cudaMemcpy(y, m, n * sizeof(float), cudaMemcpyDeviceToDevice);
}
void run(int which, float* y, const float* x, int n) {
    decltype(&run_gelu) runs[] = {run_gelu, run_scale, run_norm, run_ln, run_adam};
    runs[which](y, x, n);
}
