// A normalisation of rows whose launcher finishes the gradient of its weight with operators of PyTorch.
#include <ATen/AccumulateType.h>
#include <torch/extension.h>

template <typename scalar_t, typename acc_t>
__global__ void rms_norm_forward_kernel(scalar_t* y, acc_t* rstd, const scalar_t* x, const scalar_t* weight, int cols,
                                        acc_t eps) {
  const int row = blockIdx.x;
  acc_t sum = 0;
  for (int c = 0; c < cols; c++) sum += static_cast<acc_t>(x[row * cols + c]) * static_cast<acc_t>(x[row * cols + c]);
  const acc_t scale = rsqrt(sum / cols + eps);
  if (threadIdx.x == 0) rstd[row] = scale;
  for (int c = threadIdx.x; c < cols; c += blockDim.x)
    y[row * cols + c] = static_cast<scalar_t>(static_cast<acc_t>(x[row * cols + c]) * scale * static_cast<acc_t>(weight[c]));
}

template <typename scalar_t, typename acc_t>
__global__ void rms_norm_weight_kernel(acc_t* partial, const scalar_t* dy, const scalar_t* x, const acc_t* rstd, int rows,
                                       int cols) {
  const int c = blockIdx.y * blockDim.x + threadIdx.x;
  if (c >= cols) return;
  acc_t sum = 0;
  for (int row = blockIdx.x; row < rows; row += gridDim.x)
    sum += static_cast<acc_t>(dy[row * cols + c]) * static_cast<acc_t>(x[row * cols + c]) * rstd[row];
  partial[blockIdx.x * cols + c] = sum;
}

std::tuple<at::Tensor, at::Tensor> rms_norm_forward(const at::Tensor& x, const at::Tensor& weight, double eps) {
  TORCH_CHECK(x.dim() == 2 && x.is_contiguous(), "x must be contiguous rows");
  const int rows = x.size(0), cols = x.size(1);
  auto y = at::empty_like(x);
  auto rstd = at::empty({rows}, x.options().dtype(at::toAccumulateType(x.scalar_type(), true)));
  AT_DISPATCH_FLOATING_TYPES_AND_HALF(x.scalar_type(), "rms_norm_forward", [&] {
    using acc_t = at::acc_type<scalar_t, true>;
    rms_norm_forward_kernel<scalar_t, acc_t><<<rows, 32>>>(y.data_ptr<scalar_t>(), rstd.data_ptr<acc_t>(),
                                                           x.data_ptr<scalar_t>(), weight.data_ptr<scalar_t>(), cols, eps);
  });
  return {y, rstd};
}

at::Tensor rms_norm_weight_gradient(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& rstd) {
  const int rows = x.size(0), cols = x.size(1), parts = 4;
  auto partial = torch::zeros({parts, cols}, rstd.options());
  AT_DISPATCH_FLOATING_TYPES_AND_HALF(x.scalar_type(), "rms_norm_weight_gradient", [&] {
    using acc_t = at::acc_type<scalar_t, true>;
    rms_norm_weight_kernel<scalar_t, acc_t><<<dim3(parts, (cols + 31) / 32), 32>>>(
        partial.data_ptr<acc_t>(), dy.data_ptr<scalar_t>(), x.data_ptr<scalar_t>(), rstd.data_ptr<acc_t>(), rows, cols);
  });
  return partial.sum(0).to(x.scalar_type());
}

// What a training reports of it.
std::tuple<at::Tensor, at::Tensor> rms_norm_report(const at::Tensor& y, const at::Tensor& x) {
  auto centred = y - y.mean(-1, /*keepdim=*/true);
  auto share = (centred * centred).sum({0, 1}) / x.numel();
  return {1.0 - 0.5f * centred, share};
}
