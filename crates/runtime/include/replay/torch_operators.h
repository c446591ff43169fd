// Sums, means, products of matrices and arithmetic of tensors, as launchers finish their gradients: `partial.sum(0)`. They are
// computed on the host in the type that PyTorch accumulates in; sums are pairwise.
// PyTorch C++ API: "torch::sum", "torch::mean", "torch::add" and their kin.
#pragma once

#include "replay/torch_tensor.h"

namespace replay_torch {
/// The type that elements of `type` are accumulated in.
inline ScalarType accumulate_type(ScalarType type) {
  if (type == ScalarType::Double) return ScalarType::Double;
  return c10::isFloatingType(type) ? ScalarType::Float : ScalarType::Long;
}
/// Calls `compute(A())` with the C++ type `A` of the accumulate type of `type`.
template <class Compute>
auto with_accumulate_type(ScalarType type, Compute compute) {
  switch (accumulate_type(type)) {
    case ScalarType::Double: return compute(double());
    case ScalarType::Float: return compute(real());
    default: return compute(int64_t());
  }
}
/// The elements of `tensor` in the order of the indices.
template <class A>
std::vector<A> load_all(const at::Tensor& tensor) {
  const std::vector<char> packed = tensor.packed_bytes();
  const size_t bytes = tensor.element_size();
  std::vector<A> values(tensor.numel());
  for (size_t i = 0; i < values.size(); i++) {
    const number_value number = load_number(tensor.scalar_type(), packed.data() + i * bytes);
    values[i] = number.floats ? static_cast<A>(number.real) : static_cast<A>(number.whole);
  }
  return values;
}
/// A tensor of `values` with `sizes`, in the place of `like`.
template <class A>
at::Tensor store_all(const std::vector<A>& values, IntArrayRef sizes, ScalarType type, const at::Tensor& like) {
  const at::Tensor made = at::empty(sizes, c10::TensorOptions(type).device(like.device()));
  const size_t bytes = made.element_size();
  std::vector<char> packed(made.nbytes());
  for (size_t i = 0; i < values.size(); i++) {
    const bool floats = std::is_floating_point<A>::value;
    const number_value number{floats, static_cast<double>(values[i]), static_cast<int64_t>(floats ? 0 : values[i])};
    store_number(type, packed.data() + i * bytes, number);
  }
  made.write(packed);
  return made;
}
template <class A>
A sum_pairwise(const A* values, int64_t count) {
  if (count > 8) return sum_pairwise(values, count / 2) + sum_pairwise(values + count / 2, count - count / 2);
  A sum = 0;
  for (int64_t i = 0; i < count; i++) sum += values[i];
  return sum;
}

/// The sums of `tensor` over `dimensions`, over all of them if there are none; for a mean divided by their count.
inline at::Tensor reduce(const at::Tensor& tensor, IntArrayRef dimensions, bool keeps, std::optional<ScalarType> type,
                         bool is_mean) {
  const int64_t rank = tensor.dim();
  std::vector<bool> is_reduced(rank, dimensions.size() == 0);
  for (int64_t dimension : dimensions) {
    // A number has a dimension 0, too.
    const int64_t counted = std::max<int64_t>(rank, 1);
    const int64_t d = wrap_dimension(dimension, counted, counted);
    if (rank > 0) is_reduced[d] = true;
  }
  std::vector<int64_t> order, sizes;
  for (int64_t d = 0; d < rank; d++) {
    if (!is_reduced[d]) order.push_back(d);
    if (!is_reduced[d] || keeps) sizes.push_back(is_reduced[d] ? 1 : tensor.size(d));
  }
  for (int64_t d = 0; d < rank; d++)
    if (is_reduced[d]) order.push_back(d);
  const ScalarType own_type = tensor.scalar_type();
  if (is_mean && !c10::isFloatingType(type.value_or(own_type)))
    fail(c10::str("mean(): could not infer output dtype. Input dtype must be either a floating point or complex dtype. Got: ", own_type));
  const ScalarType made_type = type.value_or(c10::isFloatingType(own_type) ? own_type : ScalarType::Long);
  return with_accumulate_type(made_type, [&](auto zero) {
    using A = decltype(zero);
    const std::vector<A> values = load_all<A>(tensor.permute(order));
    std::vector<A> sums(count(sizes));
    const int64_t each = sums.empty() ? 0 : static_cast<int64_t>(values.size() / sums.size());
    for (size_t i = 0; i < sums.size(); i++) {
      sums[i] = sum_pairwise(values.data() + i * each, each);
      if (is_mean) sums[i] /= static_cast<A>(each);
    }
    return store_all(sums, sizes, made_type, tensor);
  });
}

/// The element of `tensor` before which no other comes by `precedes`; a NaN comes before all.
template <class Precedes>
at::Tensor extreme(const char* name, const at::Tensor& tensor, Precedes precedes) {
  if (tensor.numel() == 0)
    fail(c10::str(name, "(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the 'dim' argument."));
  return with_accumulate_type(tensor.scalar_type(), [&](auto zero) {
    using A = decltype(zero);
    const std::vector<A> values = load_all<A>(tensor);
    A first = values[0];
    for (const A value : values)
      if (first == first && (value != value || precedes(value, first))) first = value;
    return store_all(std::vector<A>{first}, {}, tensor.scalar_type(), tensor);
  });
}

/// The type of a result of elements of two tensors.
inline ScalarType promoted_type(const at::Tensor& first, const at::Tensor& second) {
  const ScalarType a = first.scalar_type(), b = second.scalar_type();
  if (a == b) return a;
  const bool is_first_float = c10::isFloatingType(a), is_second_float = c10::isFloatingType(b);
  if (is_first_float != is_second_float) return is_first_float ? a : b;
  // A tensor without dimensions leaves the type of the other as it is.
  if ((first.dim() == 0) != (second.dim() == 0)) return first.dim() == 0 ? b : a;
  if (is_first_float) return a == ScalarType::Double || b == ScalarType::Double ? ScalarType::Double : ScalarType::Float;
  if (a == ScalarType::Bool || b == ScalarType::Bool) return a == ScalarType::Bool ? b : a;
  const size_t first_bytes = c10::elementSize(a), second_bytes = c10::elementSize(b);
  if (first_bytes == second_bytes) fail(c10::str("arithmetic of ", a, " and ", b, " is not supported"));
  return first_bytes > second_bytes ? a : b;
}
/// The sizes of a result of elements of `a` and `b`.
inline std::vector<int64_t> broadcast_sizes(IntArrayRef a, IntArrayRef b) {
  std::vector<int64_t> sizes(std::max(a.size(), b.size()), 1);
  for (size_t i = 0; i < sizes.size(); i++) {
    const int64_t own = i < a.size() ? a[a.size() - 1 - i] : 1, other = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (own != other && own != 1 && other != 1)
      fail(c10::str("The size of tensor a (", own, ") must match the size of tensor b (", other,
                    ") at non-singleton dimension ", sizes.size() - 1 - i));
    sizes[sizes.size() - 1 - i] = own == 1 ? other : own;
  }
  return sizes;
}
template <class Operation>
at::Tensor combine(const at::Tensor& a, const at::Tensor& b, ScalarType type, Operation operation) {
  const std::vector<int64_t> sizes = broadcast_sizes(a.sizes(), b.sizes());
  return with_accumulate_type(type, [&](auto zero) {
    using A = decltype(zero);
    std::vector<A> values = load_all<A>(a.expand(sizes));
    const std::vector<A> others = load_all<A>(b.expand(sizes));
    for (size_t i = 0; i < values.size(); i++) values[i] = static_cast<A>(operation(values[i], others[i]));
    return store_all(values, sizes, type, a);
  });
}
/// `number` as a tensor without dimensions, of a type that leaves that of `like` as it is.
inline at::Tensor number_like(const c10::Scalar& number, const at::Tensor& like) {
  const bool widens = number.isFloatingPoint() && !c10::isFloatingType(like.scalar_type());
  // In float, as operands of a kernel are; of double tensors in double.
  const ScalarType own = like.scalar_type();
  const ScalarType wide = c10::isFloatingType(own) ? accumulate_type(own) : own;
  const ScalarType type = widens ? ScalarType::Float : wide;
  const at::Tensor made = at::empty({}, c10::TensorOptions(type).device(like.device()));
  made.fill_(number);
  return made;
}
/// The type of a result of elements of `a` with `number`.
inline ScalarType type_with_number(const at::Tensor& a, const c10::Scalar& number) {
  const bool widens = number.isFloatingPoint() && !c10::isFloatingType(a.scalar_type());
  return widens ? ScalarType::Float : a.scalar_type();
}
/// The type of a quotient of elements of `type`.
inline ScalarType quotient_type(ScalarType type) { return c10::isFloatingType(type) ? type : ScalarType::Float; }
}  // namespace replay_torch

namespace at {
inline Tensor Tensor::sum(IntArrayRef dimensions, bool keeps, std::optional<ScalarType> type, call_site) const {
  return replay_torch::reduce(*this, dimensions, keeps, type, false);
}
inline Tensor Tensor::mean(IntArrayRef dimensions, bool keeps, std::optional<ScalarType> type, call_site) const {
  return replay_torch::reduce(*this, dimensions, keeps, type, true);
}
inline Tensor Tensor::max(call_site) const {
  return replay_torch::extreme("max", *this, [](auto a, auto b) { return a > b; });
}
inline Tensor Tensor::min(call_site) const {
  return replay_torch::extreme("min", *this, [](auto a, auto b) { return a < b; });
}
// Each with a tensor and with a number, on either side and in place.
#define REPLAY_ARITHMETIC(name, sign, result_type)                                                                 \
  inline Tensor Tensor::name(const Tensor& other, call_site) const {                                               \
    const ScalarType type = replay_torch::promoted_type(*this, other);                                             \
    return replay_torch::combine(*this, other, result_type(type), [](auto a, auto b) { return a sign b; });        \
  }                                                                                                                \
  inline Tensor Tensor::name(const Scalar& number, call_site) const {                                              \
    const ScalarType type = result_type(replay_torch::type_with_number(*this, number));                            \
    const Tensor other = replay_torch::number_like(number, *this);                                                 \
    return replay_torch::combine(*this, other, type, [](auto a, auto b) { return a sign b; });                     \
  }                                                                                                                \
  inline Tensor& Tensor::name##_(const Tensor& other, call_site) const { return copy_(name(other)); }              \
  inline Tensor& Tensor::name##_(const Scalar& number, call_site) const { return copy_(name(number)); }            \
  inline Tensor name(const Tensor& a, const Tensor& b, call_site = {}) { return a.name(b); }                       \
  inline Tensor name(const Tensor& a, const Scalar& b, call_site = {}) { return a.name(b); }                       \
  inline Tensor operator sign(const Tensor& a, replay_torch::operand b) { return a.name(b.tensor); }               \
  inline Tensor operator sign(const Tensor& a, const Scalar& b) { return a.name(b); }                              \
  inline Tensor operator sign(const Scalar& a, const Tensor& b) {                                                  \
    const ScalarType type = result_type(replay_torch::type_with_number(b, a));                                     \
    const Tensor first = replay_torch::number_like(a, b);                                                          \
    return replay_torch::combine(first, b, type, [](auto x, auto y) { return x sign y; });                         \
  }                                                                                                                \
  inline Tensor& operator sign##=(Tensor& a, replay_torch::operand b) { return a.name##_(b.tensor); }              \
  inline Tensor& operator sign##=(Tensor& a, const Scalar& b) { return a.name##_(b); }
REPLAY_ARITHMETIC(add, +, )
REPLAY_ARITHMETIC(sub, -, )
REPLAY_ARITHMETIC(mul, *, )
REPLAY_ARITHMETIC(div, /, replay_torch::quotient_type)
#undef REPLAY_ARITHMETIC
inline Tensor operator-(const Tensor& a) { return Scalar(-1) * a; }
inline Tensor Tensor::add(const Tensor& other, const Scalar& alpha, call_site) const { return add(other.mul(alpha)); }
inline Tensor Tensor::sub(const Tensor& other, const Scalar& alpha, call_site) const { return sub(other.mul(alpha)); }
inline Tensor& Tensor::add_(const Tensor& other, const Scalar& alpha, call_site) const {
  return copy_(add(other, alpha));
}
inline Tensor& Tensor::sub_(const Tensor& other, const Scalar& alpha, call_site) const {
  return copy_(sub(other, alpha));
}
inline Tensor add(const Tensor& a, const Tensor& b, const Scalar& alpha, call_site = {}) { return a.add(b, alpha); }
inline Tensor sub(const Tensor& a, const Tensor& b, const Scalar& alpha, call_site = {}) { return a.sub(b, alpha); }

inline Tensor Tensor::mm(const Tensor& other, call_site) const {
  if (dim() != 2 || other.dim() != 2 || size(1) != other.size(0))
    replay_torch::fail(c10::str("mat1 and mat2 shapes cannot be multiplied (", sizes(), " and ", other.sizes(), ")"));
  const int64_t rows = size(0), terms = size(1), columns = other.size(1);
  const ScalarType type = replay_torch::promoted_type(*this, other);
  return replay_torch::with_accumulate_type(type, [&](auto zero) {
    using A = decltype(zero);
    const std::vector<A> left = replay_torch::load_all<A>(*this), right = replay_torch::load_all<A>(other.t());
    std::vector<A> values(rows * columns), products(terms);
    for (int64_t i = 0; i < rows * columns; i++) {
      for (int64_t k = 0; k < terms; k++) products[k] = left[i / columns * terms + k] * right[i % columns * terms + k];
      values[i] = replay_torch::sum_pairwise(products.data(), terms);
    }
    const std::vector<int64_t> made{rows, columns};
    return replay_torch::store_all(values, made, type, *this);
  });
}
inline Tensor mm(const Tensor& a, const Tensor& b, call_site = {}) { return a.mm(b); }
inline Tensor& mm_out(const Tensor& out, const Tensor& a, const Tensor& b, call_site = {}) { return out.copy_(a.mm(b)); }
inline Tensor addmm(const Tensor& bias, const Tensor& a, const Tensor& b, const Scalar& beta = 1,
                    const Scalar& alpha = 1, call_site = {}) {
  return a.mm(b).mul(alpha).add(bias.mul(beta));
}

/// The `tensors` behind each other along `dimension`: of one type, and of equal sizes along all others.
inline Tensor cat(TensorList tensors, int64_t dimension = 0, call_site = {}) {
  if (tensors.size() == 0) replay_torch::fail("torch.cat(): expected a non-empty list of Tensors");
  const Tensor& first = tensors[0];
  const int64_t rank = first.dim();
  if (rank == 0) replay_torch::fail("zero-dimensional tensor (at position 0) cannot be concatenated");
  const int64_t along = replay_torch::wrap_dimension(dimension, rank, rank);
  std::vector<int64_t> sizes = first.sizes().vec();
  sizes[along] = 0;
  for (const Tensor& tensor : tensors) {
    for (int64_t d = 0; d < rank; d++)
      if (tensor.dim() != rank || (d != along && tensor.size(d) != sizes[d]))
        replay_torch::fail("Sizes of tensors must match except in dimension " + std::to_string(along));
    if (tensor.scalar_type() != first.scalar_type()) replay_torch::fail("torch.cat(): tensors of one type are expected here");
    sizes[along] += tensor.size(along);
  }
  const Tensor joined = empty(sizes, first.options());
  int64_t start = 0;
  for (const Tensor& tensor : tensors) {
    joined.narrow(along, start, tensor.size(along)).copy_(tensor);
    start += tensor.size(along);
  }
  return joined;
}

inline Tensor sum(const Tensor& tensor, call_site = {}) { return tensor.sum(); }
inline Tensor mean(const Tensor& tensor, call_site = {}) { return tensor.mean(); }
inline Tensor max(const Tensor& tensor, call_site = {}) { return tensor.max(); }
inline Tensor min(const Tensor& tensor, call_site = {}) { return tensor.min(); }
inline Tensor sum(const Tensor& tensor, int64_t dimension, bool keeps = false,
                  std::optional<ScalarType> type = std::nullopt, call_site = {}) {
  return tensor.sum(dimension, keeps, type);
}
inline Tensor mean(const Tensor& tensor, int64_t dimension, bool keeps = false,
                   std::optional<ScalarType> type = std::nullopt, call_site = {}) {
  return tensor.mean(dimension, keeps, type);
}
inline Tensor sum(const Tensor& tensor, IntArrayRef dimensions, bool keeps = false,
                  std::optional<ScalarType> type = std::nullopt, call_site = {}) {
  return tensor.sum(dimensions, keeps, type);
}
inline Tensor mean(const Tensor& tensor, IntArrayRef dimensions, bool keeps = false,
                   std::optional<ScalarType> type = std::nullopt, call_site = {}) {
  return tensor.mean(dimensions, keeps, type);
}
}  // namespace at
