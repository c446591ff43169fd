// A fused layer norm as extensions ship it: checks, dispatch by type, and functions of tensors.
#include <ATen/AccumulateType.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/extension.h>

#include "layer_norm.h"

#define CHECK_CUDA(x) TORCH_CHECK(x.is_cuda(), #x " must be a CUDA tensor")
#define CHECK_CONTIGUOUS(x) TORCH_CHECK(x.is_contiguous(), #x " must be contiguous")
#define CHECK_INPUT(x) \
  CHECK_CUDA(x);       \
  CHECK_CONTIGUOUS(x)

namespace {

template <typename T>
__inline__ __device__ T warp_sum(T value) {
#pragma unroll
  for (int offset = 16; offset > 0; offset >>= 1) value += __shfl_down_sync(0xffffffff, value, offset);
  return value;
}

template <typename T>
__inline__ __device__ T block_sum(T value, T* shared) {
  const int lane = threadIdx.x % C10_WARP_SIZE;
  const int warp = threadIdx.x / C10_WARP_SIZE;
  value = warp_sum(value);
  __syncthreads();
  if (lane == 0) shared[warp] = value;
  __syncthreads();
  value = threadIdx.x < blockDim.x / C10_WARP_SIZE ? shared[lane] : T(0);
  if (warp == 0) value = warp_sum(value);
  if (threadIdx.x == 0) shared[0] = value;
  __syncthreads();
  return shared[0];
}

template <typename scalar_t>
__global__ void layer_norm_forward_kernel(const scalar_t* __restrict__ x, const scalar_t* __restrict__ weight,
                                          const scalar_t* __restrict__ bias, scalar_t* __restrict__ y,
                                          at::acc_type<scalar_t, true>* __restrict__ mean,
                                          at::acc_type<scalar_t, true>* __restrict__ rstd, int64_t columns,
                                          at::acc_type<scalar_t, true> eps) {
  using acc_t = at::acc_type<scalar_t, true>;
  __shared__ acc_t shared[32];
  const int64_t row = blockIdx.x;
  acc_t sum = 0;
  for (int64_t i = threadIdx.x; i < columns; i += blockDim.x) sum += static_cast<acc_t>(x[row * columns + i]);
  const acc_t mu = block_sum(sum, shared) / columns;
  acc_t squares = 0;
  for (int64_t i = threadIdx.x; i < columns; i += blockDim.x) {
    const acc_t d = static_cast<acc_t>(x[row * columns + i]) - mu;
    squares += d * d;
  }
  const acc_t scale = rsqrt(block_sum(squares, shared) / columns + eps);
  for (int64_t i = threadIdx.x; i < columns; i += blockDim.x) {
    const acc_t normal = (static_cast<acc_t>(x[row * columns + i]) - mu) * scale;
    y[row * columns + i] = static_cast<scalar_t>(normal * static_cast<acc_t>(weight[i]) + static_cast<acc_t>(bias[i]));
  }
  if (threadIdx.x == 0) {
    mean[row] = mu;
    rstd[row] = scale;
  }
}

template <typename scalar_t>
__global__ void layer_norm_backward_kernel(const scalar_t* __restrict__ dy, const scalar_t* __restrict__ x,
                                           const at::acc_type<scalar_t, true>* __restrict__ mean,
                                           const at::acc_type<scalar_t, true>* __restrict__ rstd,
                                           const scalar_t* __restrict__ weight, scalar_t* __restrict__ dx,
                                           float* __restrict__ dweight, float* __restrict__ dbias, int64_t columns) {
  using acc_t = at::acc_type<scalar_t, true>;
  __shared__ acc_t shared[32];
  const int64_t row = blockIdx.x;
  acc_t sum = 0, sum_normal = 0;
  for (int64_t i = threadIdx.x; i < columns; i += blockDim.x) {
    const acc_t normal = (static_cast<acc_t>(x[row * columns + i]) - mean[row]) * rstd[row];
    const acc_t g = static_cast<acc_t>(dy[row * columns + i]) * static_cast<acc_t>(weight[i]);
    sum += g;
    sum_normal += g * normal;
  }
  const acc_t mean_g = block_sum(sum, shared) / columns;
  const acc_t mean_gn = block_sum(sum_normal, shared) / columns;
  for (int64_t i = threadIdx.x; i < columns; i += blockDim.x) {
    const acc_t normal = (static_cast<acc_t>(x[row * columns + i]) - mean[row]) * rstd[row];
    const acc_t out = static_cast<acc_t>(dy[row * columns + i]);
    const acc_t g = out * static_cast<acc_t>(weight[i]);
#ifdef DEFECT
    dx[row * columns + i] = static_cast<scalar_t>((g - mean_g) * rstd[row]);
#else
    dx[row * columns + i] = static_cast<scalar_t>((g - mean_g - normal * mean_gn) * rstd[row]);
#endif
    gpuAtomicAdd(&dweight[i], static_cast<float>(out * normal));
    gpuAtomicAdd(&dbias[i], static_cast<float>(out));
  }
}

}  // namespace

std::tuple<torch::Tensor, torch::Tensor, torch::Tensor> layer_norm_forward(const torch::Tensor& x,
                                                                           const torch::Tensor& weight,
                                                                           const torch::Tensor& bias, double eps) {
  CHECK_INPUT(x);
  CHECK_INPUT(weight);
  CHECK_INPUT(bias);
  TORCH_CHECK(x.dim() >= 2, "expected at least two dimensions, got ", x.dim());
  TORCH_CHECK(weight.size(0) == x.size(-1), "weight has ", weight.size(0), " elements, rows have ", x.size(-1));
  TORCH_CHECK(weight.scalar_type() == x.scalar_type(), "weight is ", weight.dtype(), " and x is ", x.dtype());
  const at::cuda::OptionalCUDAGuard device_guard(device_of(x));
  const int64_t columns = x.size(-1);
  const int64_t rows = x.numel() / columns;
  auto y = torch::empty_like(x);
  const auto acc_options = x.options().dtype(x.scalar_type() == torch::kFloat64 ? torch::kFloat64 : torch::kFloat32);
  auto mean = torch::empty({rows}, acc_options);
  auto rstd = torch::empty({rows}, acc_options);
  const cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  AT_DISPATCH_FLOATING_TYPES_AND2(
      at::ScalarType::Half, at::ScalarType::BFloat16, x.scalar_type(), "layer_norm_forward", [&] {
        using acc_t = at::acc_type<scalar_t, true>;
        layer_norm_forward_kernel<scalar_t><<<rows, 64, 0, stream>>>(
            x.data_ptr<scalar_t>(), weight.data_ptr<scalar_t>(), bias.data_ptr<scalar_t>(), y.data_ptr<scalar_t>(),
            mean.data_ptr<acc_t>(), rstd.data_ptr<acc_t>(), columns, static_cast<acc_t>(eps));
      });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {y, mean, rstd};
}

std::vector<torch::Tensor> layer_norm_backward(torch::Tensor dy, torch::Tensor x, torch::Tensor mean,
                                               torch::Tensor rstd, torch::Tensor weight) {
  CHECK_INPUT(x);
  TORCH_CHECK(dy.sizes() == x.sizes(), "dy has the sizes ", dy.sizes(), ", x has ", x.sizes());
  dy = dy.contiguous();
  const int64_t columns = x.size(-1);
  const int64_t rows = x.numel() / columns;
  auto dx = torch::empty_like(x);
  auto dweight = torch::zeros({columns}, x.options().dtype(torch::kFloat32));
  auto dbias = torch::zeros_like(dweight);
  AT_DISPATCH_FLOATING_TYPES_AND_HALF(x.scalar_type(), "layer_norm_backward", ([&] {
    using acc_t = at::acc_type<scalar_t, true>;
    layer_norm_backward_kernel<scalar_t><<<rows, 64, 0, at::cuda::getCurrentCUDAStream()>>>(
        dy.data_ptr<scalar_t>(), x.data_ptr<scalar_t>(), mean.data_ptr<acc_t>(), rstd.data_ptr<acc_t>(),
        weight.data_ptr<scalar_t>(), dx.data_ptr<scalar_t>(), dweight.data_ptr<float>(), dbias.data_ptr<float>(),
        columns);
  }));
  C10_CUDA_CHECK(cudaGetLastError());
  return {dx, dweight.to(weight.scalar_type()), dbias.to(weight.scalar_type())};
}

// Not called by a replay, and with a part of PyTorch that has no stand-in.
torch::Tensor layer_norm_reference(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, double eps) {
  return torch::nn::functional::layer_norm(x, {x.size(-1)}, weight, bias, eps);
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("forward", &layer_norm_forward, "layer norm (CUDA)", py::arg("x"), py::arg("weight"), py::arg("bias"),
        py::arg("eps") = 1e-5);
  m.def("backward", &layer_norm_backward, "layer norm backward (CUDA)");
}
