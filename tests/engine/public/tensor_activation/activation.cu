// An elementwise operator on views, written in place, with a class of options for Python.
#include <ATen/NumericLimits.cuh>
#include <c10/cuda/CUDAException.h>
#include <c10/util/Optional.h>
#include <torch/custom_class.h>
#include <torch/extension.h>

struct ActivationConfig : torch::CustomClassHolder {
  double slope;
  bool squared;
  explicit ActivationConfig(double slope, bool squared = false) : slope(slope), squared(squared) {}
};

template <typename scalar_t>
__global__ void leaky_kernel(scalar_t* __restrict__ out, const scalar_t* __restrict__ in, int64_t rows, int64_t columns,
                             int64_t stride, float slope, bool squared) {
  const int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (i >= rows * columns) return;
  scalar_t x = __ldg(&in[i / columns * stride + i % columns]);
  if (x < scalar_t(0)) x = x * slope;
  if (squared) x *= x;
  if (x > at::numeric_limits<scalar_t>::max()) x = at::numeric_limits<scalar_t>::upper_bound();
  out[i] = x;
}

// Half of the columns are the gate of the others' neighbours: the input is a view.
void leaky_out(torch::Tensor& out, const torch::Tensor& in, const c10::intrusive_ptr<ActivationConfig>& config) {
  TORCH_CHECK(in.stride(-1) == 1, "the last dimension must be packed");
  const int64_t columns = in.size(-1), rows = in.numel() / columns;
  TORCH_CHECK(out.sizes() == in.sizes(), "out is ", out.sizes(), " for ", in.sizes());
  AT_DISPATCH_SWITCH(in.scalar_type(), "leaky_out",
                     AT_DISPATCH_CASE_FLOATING_TYPES([&] {
                       leaky_kernel<scalar_t><<<(rows * columns + 127) / 128, 128>>>(
                           out.data_ptr<scalar_t>(), in.const_data_ptr<scalar_t>(), rows, columns, in.stride(-2),
                           config->slope, config->squared);
                     }) AT_DISPATCH_CASE(at::ScalarType::Half, [&] {
                       leaky_kernel<scalar_t><<<(rows * columns + 127) / 128, 128>>>(
                           out.data_ptr<scalar_t>(), in.const_data_ptr<scalar_t>(), rows, columns, in.stride(-2),
                           config->slope, config->squared);
                     }));
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

torch::Tensor leaky_halves(const torch::Tensor& in, double slope, c10::optional<bool> squared = c10::nullopt) {
  TORCH_CHECK(in.size(-1) % 2 == 0, "an even number of columns is needed, not ", in.size(-1));
  auto config = c10::make_intrusive<ActivationConfig>(slope, squared.value_or(false));
  const int64_t half = in.size(-1) / 2;
  auto out = torch::empty({2, in.size(0), half}, in.options());
  auto first = out.select(0, 0), second = out[1];
  leaky_out(first, in.narrow(-1, 0, half), config);
#ifdef DEFECT
  leaky_out(second, in.slice(-1, half - 1, 2 * half - 1), config);
#else
  leaky_out(second, in.slice(-1, half), config);
#endif
  return out.permute({1, 0, 2});
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  py::class_<ActivationConfig>(m, "ActivationConfig").def(py::init<double, bool>()).def_readwrite("slope", &ActivationConfig::slope);
  m.def("leaky_halves", &leaky_halves);
}
