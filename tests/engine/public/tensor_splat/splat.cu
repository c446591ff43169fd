// Points drawn on a line of pixels as bells, with an optional mask and optional colours, as splatting libraries bind it.
#include <ATen/ATen.h>
#include <ATen/cuda/Atomic.cuh>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <algorithm>
#include <optional>

namespace splat {

template <typename scalar_t>
__global__ void draw_kernel(
    const at::PackedTensorAccessor32<scalar_t, 2, torch::RestrictPtrTraits> points,  // [N, 3]: place, width, weight
    const at::PackedTensorAccessor32<scalar_t, 2, torch::RestrictPtrTraits> colors,  // [N, C]
    const bool* __restrict__ mask, at::PackedTensorAccessor32<scalar_t, 2, torch::RestrictPtrTraits> image,
    int32_t* __restrict__ counts) {
  CUDA_KERNEL_LOOP(pixel, image.size(0)) {
    for (int c = 0; c < image.size(1); ++c) image[pixel][c] = scalar_t(0);
    int count = 0;
    for (int n = 0; n < points.size(0); ++n) {
      if (mask != nullptr && !mask[n]) continue;
      const auto point = points[n];
      const scalar_t z = (scalar_t(pixel) - point[0]) / point[1];
      const scalar_t bell = point[2] * exp(-z * z / 2);
      if (bell < scalar_t(1e-6)) continue;
      ++count;
      for (int c = 0; c < image.size(1); ++c) image[pixel][c] += bell * colors[n][c];
    }
    counts[pixel] = count;
  }
}

struct Range {
  at::Tensor first, last;
  int64_t length() const { return last.numel() - first.numel(); }
};

// With an optional mask and optional colours; the number of pixels beside the tensors.
std::tuple<at::Tensor, at::Tensor, int64_t> draw(const at::Tensor& points, const at::optional<at::Tensor>& colors,
                                                 const std::optional<at::Tensor> mask, int64_t pixels) {
  TORCH_CHECK(points.dim() == 2 && points.size(1) == 3, "points must be [N, 3], got ", points.sizes());
  TORCH_CHECK_GT(pixels, 0);
  const auto options = points.options();
  at::Tensor tint = colors.has_value() ? colors.value() : at::ones({points.size(0), 1}, options);
  const bool* chosen = nullptr;
  if (mask) {
    TORCH_CHECK(mask->scalar_type() == at::kBool, "mask must be bool");
    TORCH_CHECK(mask->numel() == points.size(0), "mask has ", mask->numel(), " elements for ", points.size(0), " points");
    chosen = mask->data_ptr<bool>();
  }
  at::Tensor image = at::empty({pixels, tint.size(1)}, options);
  at::Tensor counts = at::empty({pixels}, options.dtype(at::kInt));
  const int threads = std::max({32, 64, static_cast<int>(points.size(1))});
  const int blocks = (pixels + threads - 1) / threads;
  AT_DISPATCH_FLOATING_TYPES(points.scalar_type(), "draw", [&] {
    draw_kernel<scalar_t><<<blocks, threads, 0, c10::cuda::getCurrentCUDAStream()>>>(
        points.packed_accessor32<scalar_t, 2, torch::RestrictPtrTraits>(),
        tint.packed_accessor32<scalar_t, 2, torch::RestrictPtrTraits>(), chosen,
        image.packed_accessor32<scalar_t, 2, torch::RestrictPtrTraits>(), counts.data_ptr<int32_t>());
  });
  return std::make_tuple(image, counts, pixels);
}

TORCH_LIBRARY(splat, m) {
  m.def("draw(Tensor points, Tensor? colors, Tensor? mask, int pixels) -> (Tensor, Tensor, int)");
  m.impl("draw", torch::kCUDA, &draw);
}

}  // namespace splat
