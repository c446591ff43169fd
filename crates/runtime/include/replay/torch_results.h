// What a call with tensors returns, brought to the outputs of the harness.
#pragma once

#include "replay/torch_tensor.h"

namespace replay_torch {
/// The place of a result: an output of the harness, or nothing.
struct slot {
  const char* name;
  std::function<void(const at::Tensor&)> take_tensor;
  std::function<void(const c10::Scalar&)> take_number;
};

inline std::string described(ScalarType type, IntArrayRef sizes) { return c10::str(type, ' ', sizes); }

/// Copies the elements of `result` to the device memory at `to`.
inline void copy_elements(void* to, const at::Tensor& result) {
  if (result.is_contiguous() && result.is_cuda()) {
    (void)cudaMemcpy(to, result.data_ptr(), result.nbytes(), cudaMemcpyDeviceToDevice);
    return;
  }
  const std::vector<char> packed = result.packed_bytes();
  (void)cudaMemcpy(to, packed.data(), packed.size(), cudaMemcpyHostToDevice);
}

/// Copies `result` to the tensor `output` of the harness.
inline void store_result(const char* name, const call_tensor& output, const at::Tensor& result) {
  if (!result.defined()) return;
  // A number without dimensions is an array of one as well.
  const bool are_numbers = result.numel() == 1 && result.dim() == 0 && count(output.sizes) == 1;
  if (result.scalar_type() != output.type || !(are_numbers || result.sizes().equals(output.sizes)))
    misfit(c10::str("the call gives ", described(result.scalar_type(), result.sizes()), " for the output `", name,
                  "`, in the harness ", described(output.type, output.sizes)));
  if (result.data_ptr() != output.data && result.numel() != 0) copy_elements(output.data, result);
}

template <class T>
slot output(const char* name, T* data) {
  return {name,
          [=](const at::Tensor& result) {
            const call_tensor* known = find_call_tensor(data);
            if (known != nullptr) store_result(name, *known, result);
          },
          nullptr};
}
template <class T, class = std::enable_if_t<is_element<T>::value>>
slot output(const char* name, T& value) {
  return {name, [&](const at::Tensor& result) { value = static_cast<T>(result.item<double>()); },
          [&](const c10::Scalar& result) { value = static_cast<T>(result.to<double>()); }};
}
/// The elements of `result` that hold what fresh memory does: nobody wrote them. Bytes may do so by chance.
inline size_t count_unwritten(const at::Tensor& result) {
  const size_t bytes = result.element_size();
  if (!result.is_cuda() || bytes == 1) return 0;
  const std::vector<char> written = result.packed_bytes(), fresh = at::empty(result.sizes(), result.options()).packed_bytes();
  size_t unwritten = 0;
  for (size_t at = 0; at < written.size(); at += bytes) unwritten += std::equal(&written[at], &written[at] + bytes, &fresh[at]);
  return unwritten;
}
/// Keeps a result of any shape and type. Outputs of the harness tell them by how far they are written: one byte more than
/// its type's number, along each dimension one more than it has elements, and a byte for each element that nobody wrote,
/// of which there are `room`.
inline slot with_measures(const char* name, void* type, std::vector<void*> extents, void* unwritten, size_t room,
                          at::Tensor& kept) {
  return {name,
          [=, &kept](const at::Tensor& result) {
            kept = result;
            if (!result.defined()) return;
            (void)cudaMemset(type, 0, static_cast<size_t>(result.scalar_type()) + 1);
            const size_t dimensions = static_cast<size_t>(result.dim());
            for (size_t d = 0; d < dimensions && d < extents.size(); d++)
              (void)cudaMemset(extents[d], 0, static_cast<size_t>(result.size(static_cast<int64_t>(d))) + 1);
            (void)cudaMemset(unwritten, 0, std::min(count_unwritten(result), room));
          },
          nullptr};
}
/// Gives the harness's tensor at `data` the first `dimensions` of `sizes`.
inline void reshape_argument(const volatile void* data, size_t dimensions, std::initializer_list<int64_t> sizes) {
  for (call_tensor& tensor : call_tensors()) {
    if (tensor.data != data) continue;
    tensor.sizes.assign(sizes.begin(), sizes.begin() + dimensions);
    tensor.strides = packed_strides(IntArrayRef(tensor.sizes));
  }
}
inline slot ignored() {
  return {"_", [](const at::Tensor&) {}, [](const c10::Scalar&) {}};
}

class results {
 public:
  template <class... Slot>
  explicit results(const Slot&... slots) : slots_{slots...} {}

  void operator=(const at::Tensor& result) const {
    expect(1);
    take(0, result);
  }
  template <class... T>
  void operator=(const std::tuple<T...>& list) const {
    expect(sizeof...(T));
    size_t next = 0;
    std::apply([&](const T&... result) { (void)std::initializer_list<int>{(take(next++, result), 0)...}; }, list);
  }
  template <class A, class B>
  void operator=(const std::pair<A, B>& list) const {
    *this = std::tuple<A, B>(list);
  }
  void operator=(const std::vector<at::Tensor>& list) const {
    expect(list.size());
    for (size_t i = 0; i < list.size(); i++) take(i, list[i]);
  }
  template <size_t N>
  void operator=(const std::array<at::Tensor, N>& list) const {
    *this = std::vector<at::Tensor>(list.begin(), list.end());
  }
  template <class T, class = std::enable_if_t<std::is_arithmetic<T>::value>>
  void operator=(T result) const {
    expect(1);
    take(0, result);
  }

 private:
  void expect(size_t count) const {
    if (count != slots_.size())
      misfit(c10::str("the call gives ", count, " results for ", slots_.size(),
                      " names: `a, _, b = f(...)` says which is which"));
  }
  void take(size_t i, const at::Tensor& result) const { slots_[i].take_tensor(result); }
  void take(size_t i, const std::optional<at::Tensor>& result) const {
    if (result.has_value()) take(i, *result);
  }
  template <class T, class = std::enable_if_t<std::is_arithmetic<T>::value>>
  void take(size_t i, T result) const {
    if (!slots_[i].take_number)
      misfit(c10::str("the call gives a number for the output `", slots_[i].name, "`, a tensor"));
    slots_[i].take_number(c10::Scalar(result));
  }

  std::vector<slot> slots_;
};

/// `(f(...), outputs)`: the results of a call that names no output. What is none, such as a status, is left alone.
inline void operator,(const at::Tensor& result, const results& outputs) { outputs = result; }
inline void operator,(const std::vector<at::Tensor>& list, const results& outputs) { outputs = list; }
template <class... T>
void operator,(const std::tuple<T...>& list, const results& outputs) {
  outputs = list;
}
}  // namespace replay_torch
