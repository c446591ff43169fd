// A PyTorch extension as repositories ship it: kernels, a dispatch by dtype, and the module's functions.
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda.h>
#include <cuda_runtime.h>
#include <vector>

#define CHECK_CUDA(x) TORCH_CHECK(x.device().is_cuda(), #x " must be a CUDA tensor")
#define CHECK_CONTIGUOUS(x) TORCH_CHECK(x.is_contiguous(), #x " must be contiguous")
#define CHECK_INPUT(x) \
    CHECK_CUDA(x);     \
    CHECK_CONTIGUOUS(x)

namespace vllm_like {

template <typename T>
__device__ __forceinline__ T silu(const T& x) {
    return (T)(((float)x) / (1.0f + expf((float)-x)));
}

template <typename scalar_t>
__global__ void bias_silu_kernel(scalar_t* __restrict__ out, const scalar_t* __restrict__ input,
                                 const scalar_t* __restrict__ bias, const int d) {
    using acc_t = at::opmath_type<scalar_t>;
    const int64_t token_idx = blockIdx.x;
    for (int64_t idx = threadIdx.x; idx < d; idx += blockDim.x) {
        const acc_t x = static_cast<acc_t>(input[token_idx * d + idx]) + static_cast<acc_t>(bias[idx]);
        out[token_idx * d + idx] = silu<scalar_t>(static_cast<scalar_t>(x));
    }
}

__global__ void half_to_float_kernel(float* out, const at::Half* in, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = __half2float(in[i]);
}

}  // namespace vllm_like

static inline dim3 block_of(int d) { return dim3(d < 1024 ? d : 1024); }

torch::Tensor bias_silu(torch::Tensor input, torch::Tensor bias) {
    CHECK_INPUT(input);
    CHECK_INPUT(bias);
    const at::cuda::OptionalCUDAGuard device_guard(device_of(input));
    const int d = input.size(-1);
    const int64_t num_tokens = input.numel() / d;
    auto out = torch::empty_like(input);
    const cudaStream_t stream = at::cuda::getCurrentCUDAStream();
    AT_DISPATCH_FLOATING_TYPES_AND2(at::ScalarType::Half, at::ScalarType::BFloat16, input.scalar_type(), "bias_silu", [&] {
        vllm_like::bias_silu_kernel<scalar_t><<<num_tokens, block_of(d), 0, stream>>>(
            out.data_ptr<scalar_t>(), input.data_ptr<scalar_t>(), bias.data_ptr<scalar_t>(), d);
    });
    return out;
}

std::vector<at::Tensor> bias_silu_twice(std::vector<at::Tensor> all) { return {bias_silu(all[0], all[1])}; }

TORCH_LIBRARY(vllm_like, m) {
    m.def("bias_silu(Tensor input, Tensor bias) -> Tensor");
    m.impl("bias_silu", torch::kCUDA, &bias_silu);
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("bias_silu", &bias_silu, "bias + SiLU (CUDA)", py::arg("input"), py::arg("bias"));
}
