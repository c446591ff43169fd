// Names of types from PyTorch's headers, for kernels of PyTorch extensions without these headers.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <replay/real.h>

namespace c10 {
using Half = __half;
using BFloat16 = __nv_bfloat16;
}  // namespace c10

namespace at {
using c10::BFloat16;
using c10::Half;

/// The type of computations with values of `T`.
template <class T>
struct OpMathType {
  using type = T;
};
template <>
struct OpMathType<Half> {
  using type = replay_rt::real;
};
template <>
struct OpMathType<BFloat16> {
  using type = replay_rt::real;
};
template <class T>
using opmath_type = typename OpMathType<T>::type;
template <class T, bool>
using acc_type = opmath_type<T>;
}  // namespace at

namespace torch {
using at::BFloat16;
using at::Half;
}  // namespace torch
