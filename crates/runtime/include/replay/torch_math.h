// Functions of elements: exponentials, bounds, powers, comparisons and choices by a mask. Computed on the host in the type that
// PyTorch accumulates in.
// PyTorch C++ API: "torch::exp", "torch::clamp", "torch::where" and their kin.
#pragma once

#include "replay/torch_operators.h"

namespace replay_torch {
/// The elements of `tensor` by `function`, as `type`.
template <class Function>
at::Tensor transform(const at::Tensor& tensor, ScalarType type, Function function) {
  return with_accumulate_type(type, [&](auto zero) {
    using A = decltype(zero);
    std::vector<A> values = load_all<A>(tensor);
    for (A& value : values) value = static_cast<A>(function(value));
    return store_all(values, tensor.sizes(), type, tensor);
  });
}
/// Whether `holds` of the elements of two tensors, as bools.
template <class Holds>
at::Tensor compare(const at::Tensor& a, const at::Tensor& b, Holds holds) {
  const std::vector<int64_t> sizes = broadcast_sizes(a.sizes(), b.sizes());
  return with_accumulate_type(promoted_type(a, b), [&](auto zero) {
    using A = decltype(zero);
    const std::vector<A> values = load_all<A>(a.expand(sizes)), others = load_all<A>(b.expand(sizes));
    std::vector<int64_t> results(values.size());
    for (size_t i = 0; i < values.size(); i++) results[i] = holds(values[i], others[i]);
    return store_all(results, sizes, ScalarType::Bool, a);
  });
}
inline void expect_mask(const char* name, const at::Tensor& mask) {
  if (mask.scalar_type() != ScalarType::Bool)
    fail(c10::str(name, " only supports boolean masks, but got mask with dtype ", mask.scalar_type()));
}
/// One number within bounds, which may be absent; a NaN stays one.
template <class A>
A clamp_number(A value, const std::optional<c10::Scalar>& least, const std::optional<c10::Scalar>& most) {
  if (least && value < least->to<A>()) value = least->to<A>();
  if (most && value > most->to<A>()) value = most->to<A>();
  return value;
}
}  // namespace replay_torch

namespace at {
#define REPLAY_FUNCTION(name, result_type, result)                                                                 \
  inline Tensor Tensor::name(call_site) const {                                                                    \
    return replay_torch::transform(*this, result_type(scalar_type()), [](auto x) { return result; });              \
  }                                                                                                                \
  inline Tensor& Tensor::name##_(call_site) const { return copy_(name()); }                                        \
  inline Tensor name(const Tensor& tensor, call_site = {}) { return tensor.name(); }
REPLAY_FUNCTION(exp, replay_torch::quotient_type, std::exp(x))
REPLAY_FUNCTION(log, replay_torch::quotient_type, std::log(x))
REPLAY_FUNCTION(log2, replay_torch::quotient_type, std::log2(x))
REPLAY_FUNCTION(sqrt, replay_torch::quotient_type, std::sqrt(x))
REPLAY_FUNCTION(rsqrt, replay_torch::quotient_type, 1 / std::sqrt(x))
REPLAY_FUNCTION(sin, replay_torch::quotient_type, std::sin(x))
REPLAY_FUNCTION(cos, replay_torch::quotient_type, std::cos(x))
REPLAY_FUNCTION(tanh, replay_torch::quotient_type, std::tanh(x))
REPLAY_FUNCTION(sigmoid, replay_torch::quotient_type, 1 / (1 + std::exp(-x)))
REPLAY_FUNCTION(reciprocal, replay_torch::quotient_type, 1 / x)
REPLAY_FUNCTION(abs, , x < 0 ? -x : x)
REPLAY_FUNCTION(neg, , -x)
REPLAY_FUNCTION(relu, , x < 0 ? decltype(x)(0) : x)
REPLAY_FUNCTION(square, , x * x)
REPLAY_FUNCTION(floor, , std::floor(x))
REPLAY_FUNCTION(ceil, , std::ceil(x))
REPLAY_FUNCTION(round, , std::nearbyint(x))
REPLAY_FUNCTION(sign, , (x > 0) - (x < 0))
#undef REPLAY_FUNCTION

#define REPLAY_COMPARISON(name, sign)                                                                              \
  inline Tensor Tensor::name(const Tensor& other, call_site) const {                                               \
    return replay_torch::compare(*this, other, [](auto a, auto b) { return a sign b; });                           \
  }                                                                                                                \
  inline Tensor Tensor::name(const Scalar& number, call_site) const {                                              \
    return name(replay_torch::number_like(number, *this));                                                         \
  }                                                                                                                \
  inline Tensor name(const Tensor& a, const Tensor& b, call_site = {}) { return a.name(b); }                       \
  inline Tensor name(const Tensor& a, const Scalar& b, call_site = {}) { return a.name(b); }                       \
  inline Tensor operator sign(const Tensor& a, replay_torch::operand b) { return a.name(b.tensor); }               \
  inline Tensor operator sign(const Tensor& a, const Scalar& b) { return a.name(b); }
REPLAY_COMPARISON(eq, ==)
REPLAY_COMPARISON(ne, !=)
REPLAY_COMPARISON(lt, <)
REPLAY_COMPARISON(le, <=)
REPLAY_COMPARISON(gt, >)
REPLAY_COMPARISON(ge, >=)
#undef REPLAY_COMPARISON
inline Tensor Tensor::logical_not(call_site) const { return eq(0); }
inline Tensor Tensor::logical_and(const Tensor& other, call_site) const {
  return replay_torch::compare(*this, other, [](auto a, auto b) { return a != 0 && b != 0; });
}
inline Tensor Tensor::logical_or(const Tensor& other, call_site) const {
  return replay_torch::compare(*this, other, [](auto a, auto b) { return a != 0 || b != 0; });
}
inline Tensor logical_not(const Tensor& a, call_site = {}) { return a.logical_not(); }
inline Tensor logical_and(const Tensor& a, const Tensor& b, call_site = {}) { return a.logical_and(b); }
inline Tensor logical_or(const Tensor& a, const Tensor& b, call_site = {}) { return a.logical_or(b); }

inline Tensor Tensor::maximum(const Tensor& other, call_site) const {
  const ScalarType type = replay_torch::promoted_type(*this, other);
  return replay_torch::combine(*this, other, type, [](auto a, auto b) { return a != a || a > b ? a : b; });
}
inline Tensor Tensor::minimum(const Tensor& other, call_site) const {
  const ScalarType type = replay_torch::promoted_type(*this, other);
  return replay_torch::combine(*this, other, type, [](auto a, auto b) { return a != a || a < b ? a : b; });
}
inline Tensor maximum(const Tensor& a, const Tensor& b, call_site = {}) { return a.maximum(b); }
inline Tensor minimum(const Tensor& a, const Tensor& b, call_site = {}) { return a.minimum(b); }
inline Tensor Tensor::clamp(const std::optional<Scalar>& least, const std::optional<Scalar>& most, call_site) const {
  if (!least && !most) replay_torch::fail("torch.clamp: At least one of 'min' or 'max' must not be None");
  ScalarType type = scalar_type();
  if (least) type = replay_torch::type_with_number(*this, *least);
  if (most && type == scalar_type()) type = replay_torch::type_with_number(*this, *most);
  return replay_torch::transform(*this, type, [&](auto x) { return replay_torch::clamp_number(x, least, most); });
}
inline Tensor& Tensor::clamp_(const std::optional<Scalar>& least, const std::optional<Scalar>& most, call_site) const {
  return copy_(clamp(least, most));
}
inline Tensor Tensor::clamp_min(const Scalar& least, call_site) const { return clamp(least, std::nullopt); }
inline Tensor Tensor::clamp_max(const Scalar& most, call_site) const { return clamp(std::nullopt, most); }
inline Tensor& Tensor::clamp_min_(const Scalar& least, call_site) const { return clamp_(least, std::nullopt); }
inline Tensor& Tensor::clamp_max_(const Scalar& most, call_site) const { return clamp_(std::nullopt, most); }
inline Tensor clamp(const Tensor& tensor, const std::optional<Scalar>& least,
                    const std::optional<Scalar>& most = std::nullopt, call_site = {}) {
  return tensor.clamp(least, most);
}
inline Tensor clamp_min(const Tensor& tensor, const Scalar& least, call_site = {}) { return tensor.clamp_min(least); }
inline Tensor clamp_max(const Tensor& tensor, const Scalar& most, call_site = {}) { return tensor.clamp_max(most); }
inline Tensor Tensor::pow(const Scalar& exponent, call_site) const {
  const ScalarType type = replay_torch::type_with_number(*this, exponent);
  if (!isFloatingType(type) && exponent.toLong() < 0)
    replay_torch::fail("Integers to negative integer powers are not allowed.");
  return replay_torch::transform(*this, type, [&](auto x) { return std::pow(x, exponent.to<decltype(x)>()); });
}
inline Tensor pow(const Tensor& tensor, const Scalar& exponent, call_site = {}) { return tensor.pow(exponent); }

inline Tensor true_divide(const Tensor& a, const Tensor& b, call_site = {}) { return a.div(b); }

/// The elements of `a` where `condition` holds, those of `b` elsewhere.
inline Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b, call_site = {}) {
  if (condition.scalar_type() != kBool && condition.scalar_type() != kByte)
    replay_torch::fail(str("where expected condition to be a boolean tensor, but got a tensor with dtype ", condition.scalar_type()));
  const std::vector<int64_t> both = replay_torch::broadcast_sizes(a.sizes(), b.sizes());
  const std::vector<int64_t> sizes = replay_torch::broadcast_sizes(condition.sizes(), both);
  const ScalarType type = replay_torch::promoted_type(a, b);
  return replay_torch::with_accumulate_type(type, [&](auto zero) {
    using A = decltype(zero);
    const std::vector<int64_t> conditions = replay_torch::load_all<int64_t>(condition.expand(sizes));
    std::vector<A> values = replay_torch::load_all<A>(a.expand(sizes));
    const std::vector<A> others = replay_torch::load_all<A>(b.expand(sizes));
    for (size_t i = 0; i < values.size(); i++)
      if (!conditions[i]) values[i] = others[i];
    return replay_torch::store_all(values, sizes, type, condition);
  });
}
inline Tensor where(const Tensor& condition, const Tensor& a, const Scalar& b, call_site = {}) {
  return where(condition, a, replay_torch::number_like(b, a));
}
inline Tensor where(const Tensor& condition, const Scalar& a, const Tensor& b, call_site = {}) {
  return where(condition, replay_torch::number_like(a, b), b);
}
inline Tensor& Tensor::masked_fill_(const Tensor& mask, const Scalar& value, call_site) const {
  replay_torch::expect_mask("masked_fill_", mask);
  Tensor filled = empty({}, options());
  filled.fill_(value);
  return copy_(where(mask.expand(sizes()), filled, *this));
}
inline Tensor& Tensor::masked_fill_(const Tensor& mask, const Tensor& value, call_site) const {
  if (value.dim() != 0)
    replay_torch::fail(str("masked_fill_ only supports a 0-dimensional value tensor, but got tensor with ", value.dim(), " dimension(s)."));
  return masked_fill_(mask, value.item());
}
inline Tensor Tensor::masked_fill(const Tensor& mask, const Scalar& value, call_site) const {
  Tensor filled = expand(replay_torch::broadcast_sizes(sizes(), mask.sizes())).clone();
  return filled.masked_fill_(mask, value);
}
inline Tensor Tensor::masked_select(const Tensor& mask, call_site) const {
  if (mask.scalar_type() != kBool) replay_torch::fail("masked_select: expected BoolTensor for mask");
  const std::vector<int64_t> sizes = replay_torch::broadcast_sizes(this->sizes(), mask.sizes());
  return replay_torch::with_accumulate_type(scalar_type(), [&](auto zero) {
    using A = decltype(zero);
    const std::vector<int64_t> masks = replay_torch::load_all<int64_t>(mask.expand(sizes));
    const std::vector<A> values = replay_torch::load_all<A>(expand(sizes));
    std::vector<A> selected;
    for (size_t i = 0; i < values.size(); i++)
      if (masks[i]) selected.push_back(values[i]);
    const std::vector<int64_t> made{static_cast<int64_t>(selected.size())};
    return replay_torch::store_all(selected, made, scalar_type(), *this);
  });
}
inline bool equal(const Tensor& a, const Tensor& b, call_site = {}) {
  return a.sizes().vec() == b.sizes().vec() && a.eq(b).all().template item<bool>();
}
}  // namespace at
