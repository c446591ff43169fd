// Tensors: memory with sizes, strides and an element type. Views share memory; computed are copies, conversions, fills and
// what replay/torch_operators.h has.
// PyTorch C++ API: "at::Tensor", "Tensor Creation API".
#pragma once

#include "replay/torch_types.h"

namespace at {
class Tensor;
}

namespace replay_torch {
using c10::IntArrayRef;
using c10::ScalarType;

/// The number from 0 below `most` of a `dimension` that may count from the end of `rank` dimensions.
inline int64_t wrap_dimension(int64_t dimension, int64_t rank, int64_t most) {
  const int64_t wrapped = dimension < 0 ? dimension + rank : dimension;
  if (wrapped < 0 || wrapped >= most)
    fail(c10::str("Dimension out of range (expected to be in range of [", -rank, ", ", rank - 1, "], but got ", dimension, ")"));
  return wrapped;
}

/// Memory of tensors, on the device or the host. It goes with its last tensor, unless it belongs to somebody else.
struct storage {
  char* data;
  size_t bytes;
  bool on_device, is_owned;
  storage(char* data, size_t bytes, bool on_device, bool is_owned)
      : data(data), bytes(bytes), on_device(on_device), is_owned(is_owned) {}
  storage(const storage&) = delete;
  ~storage() {
    if (!is_owned) return;
    if (on_device)
      (void)cudaFree(data);
    else
      (void)cudaFreeHost(data);
  }
};
inline std::shared_ptr<storage> allocate(size_t bytes, bool on_device, const char* file, uint32_t line) {
  void* data = nullptr;
  const cudaError_t error =
      on_device ? cudaMalloc(&data, bytes, file, line) : bytes ? cudaMallocHost(&data, bytes) : cudaSuccess;
  if (error != cudaSuccess)
    fail(file, line, c10::str("no memory for a tensor of ", bytes, " bytes: ", cudaGetErrorString(error)));
  return std::make_shared<storage>(static_cast<char*>(data), bytes, on_device, true);
}

inline std::vector<int64_t> packed_strides(IntArrayRef sizes) {
  std::vector<int64_t> strides(sizes.size());
  int64_t stride = 1;
  for (size_t i = sizes.size(); i-- > 0; stride *= std::max<int64_t>(sizes[i], 1)) strides[i] = stride;
  return strides;
}
inline int64_t count(IntArrayRef sizes) {
  int64_t elements = 1;
  for (int64_t size : sizes) elements *= size;
  return elements;
}

struct tensor_state {
  std::shared_ptr<storage> memory;
  int64_t offset;  // in elements
  std::vector<int64_t> sizes, strides;
  ScalarType type;
};

/// A tensor of the harness: a call passes it by its pointer.
struct call_tensor {
  std::string name;
  void* data;
  ScalarType type;
  std::vector<int64_t> sizes, strides;
};
inline std::vector<call_tensor>& call_tensors() {
  // Never destroyed: nothing of an artifact runs behind its call.
  static auto* const all = new std::vector<call_tensor>;
  return *all;
}
/// Whether the call has a tensor without elements: its pointer is null, as that of an absent one.
inline bool has_empty_tensor = false;
/// A call begins: it has no tensors yet.
inline void begin_call() {
  call_tensors().clear();
  has_empty_tensor = false;
}
inline void add_call_tensor(const char* name, const volatile void* data, ScalarType type,
                            std::initializer_list<int64_t> sizes, const long long* strides) {
  if (data == nullptr) {
    has_empty_tensor |= count(IntArrayRef(sizes)) == 0;
    return;
  }
  call_tensor tensor{name, const_cast<void*>(data), type, sizes, packed_strides(IntArrayRef(sizes))};
  for (size_t i = 0; strides && i < sizes.size(); i++) tensor.strides[i] = strides[i];
  call_tensors().push_back(std::move(tensor));
}
/// Whether `data` stands for an absent tensor.
inline bool is_absent(const void* data) {
  if (data == nullptr && has_empty_tensor)
    misfit("a tensor of the harness without elements cannot be told from an absent one where a function takes it");
  return data == nullptr;
}
inline const call_tensor* find_call_tensor(const void* data) {
  for (const call_tensor& tensor : call_tensors())
    if (tensor.data == data) return &tensor;
  return nullptr;
}

/// Ends the replay for `why` if the tensor at `data` is one of the harness, with the harness's own type.
inline void blame_call_tensor(const void* data, ScalarType type, const std::string& why, const char* file, uint32_t line) {
  const call_tensor* known = find_call_tensor(data);
  if (known != nullptr && known->type == type) misfit(c10::str(why, " in `", known->name, "` of the harness"), file, line);
}
/// Ends the replay for `why` if a tensor of the harness has the `type` that a dispatch lacks.
inline void blame_call_type(ScalarType type, const std::string& why, const char* file, uint32_t line) {
  for (const call_tensor& tensor : call_tensors())
    if (tensor.type == type) misfit(c10::str(why, ", the type of `", tensor.name, "` in the harness"), file, line);
}

/// A number of any element type.
struct number_value {
  bool floats;
  double real;
  int64_t whole;
};
template <class T>
number_value load_as(const char* from) {
  T value;
  std::copy_n(from, sizeof value, reinterpret_cast<char*>(&value));
  if constexpr (std::is_integral<T>::value)
    return {false, static_cast<double>(value), static_cast<int64_t>(value)};
  else
    return {true, static_cast<double>(value), 0};
}
template <class T>
void store_as(char* to, const number_value& number) {
  T value;
  if constexpr (std::is_same<T, bool>::value)
    value = number.floats ? number.real != 0 : number.whole != 0;
  else if constexpr (std::is_integral<T>::value)
    value = static_cast<T>(number.floats ? static_cast<int64_t>(number.real) : number.whole);
  else if constexpr (std::is_same<T, double>::value)
    value = number.floats ? number.real : static_cast<double>(number.whole);
  else
    value = T(number.floats ? static_cast<real>(number.real) : static_cast<real>(number.whole));
  std::copy_n(reinterpret_cast<const char*>(&value), sizeof value, to);
}
#define REPLAY_ELEMENT_CASE(Name, what)                                                        \
  case ScalarType::Name: {                                                                     \
    using T = c10::impl::ScalarTypeToCPPTypeT<ScalarType::Name>;                               \
    return what;                                                                               \
  }
#define REPLAY_ELEMENT_CASES(what)                                                             \
  REPLAY_ELEMENT_CASE(Byte, what)                                                              \
  REPLAY_ELEMENT_CASE(Char, what)                                                              \
  REPLAY_ELEMENT_CASE(Short, what)                                                             \
  REPLAY_ELEMENT_CASE(Int, what)                                                               \
  REPLAY_ELEMENT_CASE(Long, what)                                                              \
  REPLAY_ELEMENT_CASE(Half, what)                                                              \
  REPLAY_ELEMENT_CASE(Float, what)                                                             \
  REPLAY_ELEMENT_CASE(Double, what)                                                            \
  REPLAY_ELEMENT_CASE(Bool, what)                                                              \
  REPLAY_ELEMENT_CASE(BFloat16, what)                                                          \
  REPLAY_ELEMENT_CASE(UInt16, what)                                                            \
  REPLAY_ELEMENT_CASE(UInt32, what)                                                            \
  REPLAY_ELEMENT_CASE(UInt64, what)                                                            \
  default: fail(c10::str("elements of ", type, " cannot be read here"))
inline number_value load_number(ScalarType type, const char* from) {
  switch (type) { REPLAY_ELEMENT_CASES(load_as<T>(from)); }
}
inline void store_number(ScalarType type, char* to, const number_value& number) {
  switch (type) { REPLAY_ELEMENT_CASES(store_as<T>(to, number)); }
}

/// Calls `visit(offset, count)` for each run of elements one behind the other, in the order of the indices.
template <class Visit>
void each_run(IntArrayRef sizes, IntArrayRef strides, Visit visit) {
  if (count(sizes) == 0) return;
  size_t outer = sizes.size();
  int64_t run = 1;
  while (outer > 0 && (sizes[outer - 1] == 1 || strides[outer - 1] == run)) run *= sizes[--outer];
  std::vector<int64_t> index(outer, 0);
  for (;;) {
    int64_t offset = 0;
    for (size_t i = 0; i < outer; i++) offset += index[i] * strides[i];
    visit(offset, run);
    size_t i = outer;
    while (i > 0 && ++index[i - 1] == sizes[i - 1]) index[--i] = 0;
    if (i == 0) return;
  }
}

/// Whether type `T` of an access has elements of `type`.
template <class T>
bool holds(ScalarType type) {
  using Plain = std::remove_cv_t<T>;
#ifdef REPLAY_SHADOW
  if (std::is_same<Plain, double>::value && type == ScalarType::Double) return true;
#endif
  return c10::CppTypeToScalarType<Plain>::value == type;
}
template <class T, class = void>
struct is_element : std::false_type {};
template <class T>
struct is_element<T, decltype((void)c10::CppTypeToScalarType<std::remove_cv_t<T>>::value)> : std::true_type {};
#ifdef REPLAY_SHADOW
template <>
struct is_element<double> : std::true_type {};
#endif
}  // namespace replay_torch

namespace at {
using namespace c10;
using replay_torch::call_site;

class Tensor {
 public:
  Tensor() = default;
  Tensor(std::shared_ptr<replay_torch::tensor_state> state) : state_(std::move(state)) {}
  /// A tensor of the harness, by its pointer in the call; an absent one is undefined.
  template <class T, class = std::enable_if_t<replay_torch::is_element<T>::value>>
  Tensor(T* data) {
    if (replay_torch::is_absent(data)) return;
    const replay_torch::call_tensor* known = replay_torch::find_call_tensor(data);
    if (known == nullptr)
      replay_torch::misfit("no tensor of the harness begins at a pointer that is passed as one: torch::from_blob names its sizes");
    const size_t bytes = replay_torch::count(known->sizes) * elementSize(known->type);
    auto memory = std::make_shared<replay_torch::storage>(static_cast<char*>(known->data), bytes, true, false);
    state_ = std::make_shared<replay_torch::tensor_state>(
        replay_torch::tensor_state{memory, 0, known->sizes, known->strides, known->type});
  }

  bool defined() const { return state_ != nullptr; }
  void reset() { state_.reset(); }
  bool is_same(const Tensor& other) const { return state_ == other.state_; }
  size_t use_count() const { return state_.use_count(); }

  // Its properties.
  int64_t dim(call_site = {}) const { return static_cast<int64_t>(state().sizes.size()); }
  int64_t ndimension() const { return dim(); }
  IntArrayRef sizes(call_site = {}) const { return state().sizes; }
  IntArrayRef strides(call_site = {}) const { return state().strides; }
  IntArrayRef sym_sizes() const { return sizes(); }
  int64_t size(int64_t dimension, call_site = {}) const { return state().sizes[wrap(dimension)]; }
  int64_t sym_size(int64_t dimension) const { return size(dimension); }
  int64_t stride(int64_t dimension, call_site = {}) const { return state().strides[wrap(dimension)]; }
  int64_t storage_offset() const { return state().offset; }
  int64_t numel(call_site = {}) const { return replay_torch::count(sizes()); }
  int64_t sym_numel() const { return numel(); }
  size_t element_size() const { return elementSize(scalar_type()); }
  size_t itemsize() const { return element_size(); }
  size_t nbytes() const { return numel() * element_size(); }
  ScalarType scalar_type(call_site = {}) const { return state().type; }
  TypeMeta dtype() const { return scalar_type(); }
  Device device(call_site = {}) const { return is_cuda() ? Device(kCUDA, 0) : Device(kCPU); }
  int64_t get_device() const { return is_cuda() ? 0 : -1; }
  TensorOptions options(call_site = {}) const { return TensorOptions(scalar_type()).device(device()); }
  bool is_cuda(call_site = {}) const { return state().memory->on_device; }
  bool is_cpu() const { return !is_cuda(); }
  bool is_floating_point() const { return isFloatingType(scalar_type()); }
  bool is_complex() const { return false; }
  bool is_sparse() const { return false; }
  bool is_pinned() const { return is_cpu(); }
  bool is_non_overlapping_and_dense() const { return is_dense(); }
  bool requires_grad() const { return false; }
  Tensor& requires_grad_(bool = true) const { return self(); }
  const Tensor& set_requires_grad(bool) const { return *this; }
  Tensor detach() const { return *this; }
  bool is_contiguous(MemoryFormat format = MemoryFormat::Contiguous, call_site = {}) const {
    if (has_channels(format)) return channels_last(true).is_contiguous();
    int64_t stride = 1;
    for (size_t i = state().sizes.size(); i-- > 0;) {
      if (state().sizes[i] == 0) return true;
      if (state().sizes[i] != 1 && state().strides[i] != stride) return numel() == 0;
      stride *= state().sizes[i];
    }
    return !is_channels_last(format);
  }
  MemoryFormat suggest_memory_format() const {
    const bool last = !is_contiguous() && is_contiguous(MemoryFormat::ChannelsLast);
    return last ? MemoryFormat::ChannelsLast : MemoryFormat::Contiguous;
  }
  /// Its type and place, as older sources ask for them.
  struct Properties {
    ScalarType type_;
    bool is_cuda_;
    ScalarType scalarType() const { return type_; }
    bool is_cuda() const { return is_cuda_; }
    operator ScalarType() const { return type_; }
  };
  Properties type() const { return {scalar_type(), is_cuda()}; }

  // Its memory.
  void* data_ptr(call_site = {}) const { return address(); }
  void* mutable_data_ptr() const { return address(); }
  const void* const_data_ptr() const { return address(); }
  template <class T>
  T* data_ptr(REPLAY_SITE_PARAMS) const {
    if (!replay_torch::holds<T>(scalar_type())) {
      const std::string why =
          str("expected scalar type ", CppTypeToScalarType<std::remove_cv_t<T>>::value, " but found ", scalar_type());
      replay_torch::blame_call_tensor(state().memory->data, scalar_type(), why, file, line);
      replay_torch::fail(file, line, why);
    }
    return reinterpret_cast<T*>(address());
  }
  template <class T>
  T* data(REPLAY_SITE_PARAMS) const {
    return data_ptr<T>(file, line);
  }
  template <class T>
  T* mutable_data_ptr(REPLAY_SITE_PARAMS) const {
    return data_ptr<T>(file, line);
  }
  template <class T>
  const std::remove_const_t<T>* const_data_ptr(REPLAY_SITE_PARAMS) const {
    return data_ptr<const std::remove_const_t<T>>(file, line);
  }
  template <class T, size_t N>
  TensorAccessor<T, N> accessor(REPLAY_SITE_PARAMS) const& {
    expect_dimensions(N, file, line);
    return TensorAccessor<T, N>(data_ptr<T>(file, line), state().sizes.data(), state().strides.data());
  }
  template <class T, size_t N, template <class> class Traits = DefaultPtrTraits, class Index = int64_t>
  GenericPackedTensorAccessor<T, N, Traits, Index> generic_packed_accessor(REPLAY_SITE_PARAMS) const {
    expect_dimensions(N, file, line);
    return {data_ptr<T>(file, line), state().sizes.data(), state().strides.data()};
  }
  template <class T, size_t N, template <class> class Traits = DefaultPtrTraits>
  PackedTensorAccessor32<T, N, Traits> packed_accessor32(REPLAY_SITE_PARAMS) const {
    if (numel() > INT32_MAX)
      replay_torch::fail(file, line, "numel needs to be smaller than int32_t max; otherwise, please use packed_accessor64");
    return generic_packed_accessor<T, N, Traits, int32_t>(file, line);
  }
  template <class T, size_t N, template <class> class Traits = DefaultPtrTraits>
  PackedTensorAccessor64<T, N, Traits> packed_accessor64(REPLAY_SITE_PARAMS) const {
    return generic_packed_accessor<T, N, Traits, int64_t>(file, line);
  }
  template <class T, size_t N, template <class> class Traits = DefaultPtrTraits, class Index = int64_t>
  GenericPackedTensorAccessor<T, N, Traits, Index> packed_accessor(REPLAY_SITE_PARAMS) const {
    return generic_packed_accessor<T, N, Traits, Index>(file, line);
  }
  Scalar item(call_site = {}) const {
    if (numel() != 1) replay_torch::fail(str("a Tensor with ", numel(), " elements cannot be converted to Scalar"));
    std::vector<char> bytes = packed_bytes();
    const replay_torch::number_value value = replay_torch::load_number(scalar_type(), bytes.data());
    return value.floats ? Scalar(value.real) : Scalar(value.whole);
  }
  template <class T>
  T item(call_site = {}) const {
    return item().to<T>();
  }

  // Views.
  Tensor select(int64_t dimension, int64_t index, call_site = {}) const {
    const size_t d = wrap(dimension);
    const int64_t i = index < 0 ? index + state().sizes[d] : index;
    if (i < 0 || i >= state().sizes[d])
      replay_torch::fail(str("select(): index ", index, " out of range for tensor of size ", sizes(), " at dimension ", d));
    return view_with([&](replay_torch::tensor_state& view) {
      view.offset += i * view.strides[d];
      view.sizes.erase(view.sizes.begin() + d);
      view.strides.erase(view.strides.begin() + d);
    });
  }
  Tensor operator[](replay_torch::called_index index) const { return select(0, index.index); }
  Tensor slice(int64_t dimension = 0, std::optional<int64_t> start = std::nullopt,
               std::optional<int64_t> end = std::nullopt, int64_t step = 1, call_site = {}) const {
    const size_t d = wrap(dimension);
    const int64_t size = state().sizes[d];
    auto clamp = [&](int64_t i) { return std::min(std::max<int64_t>(i < 0 ? i + size : i, 0), size); };
    const int64_t first = clamp(start.value_or(0)), last = std::max(first, clamp(end.value_or(size)));
    if (step <= 0) replay_torch::fail("slice step must be positive");
    return view_with([&](replay_torch::tensor_state& view) {
      view.offset += first * view.strides[d];
      view.sizes[d] = (last - first + step - 1) / step;
      view.strides[d] *= step;
    });
  }
  Tensor narrow(int64_t dimension, int64_t start, int64_t length, call_site = {}) const {
    const size_t d = wrap(dimension);
    if (start < 0 || length < 0 || start + length > state().sizes[d])
      replay_torch::fail(str("start (", start, ") + length (", length, ") exceeds dimension size (", state().sizes[d], ")."));
    return slice(dimension, start, start + length);
  }
  Tensor permute(IntArrayRef order, call_site = {}) const {
    if (order.size() != state().sizes.size()) replay_torch::fail(str("permute of ", sizes(), " by ", order));
    return view_with([&](replay_torch::tensor_state& view) {
      for (size_t i = 0; i < order.size(); i++) {
        view.sizes[i] = size(order[i]);
        view.strides[i] = stride(order[i]);
      }
    });
  }
  Tensor transpose(int64_t a, int64_t b, call_site = {}) const {
    return view_with([&](replay_torch::tensor_state& view) {
      std::swap(view.sizes[wrap(a)], view.sizes[wrap(b)]);
      std::swap(view.strides[wrap(a)], view.strides[wrap(b)]);
    });
  }
  Tensor t(call_site = {}) const { return dim() < 2 ? *this : transpose(0, 1); }
  Tensor unsqueeze(int64_t dimension, call_site = {}) const {
    const int64_t d = dimension < 0 ? dimension + dim() + 1 : dimension;
    if (d < 0 || d > dim()) replay_torch::fail(str("unsqueeze(", dimension, ") of a tensor of ", dim(), " dimensions"));
    return view_with([&](replay_torch::tensor_state& view) {
      view.strides.insert(view.strides.begin() + d, d < dim() ? view.sizes[d] * view.strides[d] : 1);
      view.sizes.insert(view.sizes.begin() + d, 1);
    });
  }
  Tensor squeeze(int64_t dimension, call_site = {}) const { return size(dimension) == 1 ? select(dimension, 0) : *this; }
  Tensor squeeze(call_site = {}) const {
    Tensor view = *this;
    for (int64_t d = dim(); d-- > 0;) view = view.squeeze(d);
    return view;
  }
  Tensor expand(IntArrayRef wanted, bool = false, call_site = {}) const {
    const size_t added = wanted.size() - state().sizes.size();
    if (wanted.size() < state().sizes.size()) replay_torch::fail(str("expand of ", sizes(), " to ", wanted));
    return view_with([&](replay_torch::tensor_state& view) {
      view.sizes.insert(view.sizes.begin(), added, 1);
      view.strides.insert(view.strides.begin(), added, 0);
      for (size_t i = 0; i < wanted.size(); i++) {
        if (wanted[i] == view.sizes[i] || (wanted[i] == -1 && i >= added)) continue;
        if (view.sizes[i] != 1) replay_torch::fail(str("expand of ", sizes(), " to ", wanted));
        view.sizes[i] = wanted[i];
        view.strides[i] = 0;
      }
    });
  }
  Tensor expand_as(const Tensor& other, call_site = {}) const { return expand(other.sizes()); }
  Tensor view(IntArrayRef wanted, call_site = {}) const {
    Tensor viewed = try_view(wanted);
    if (!viewed.defined())
      replay_torch::fail("view size is not compatible with input tensor's size and stride (at least one dimension spans "
                         "across two contiguous subspaces). Use .reshape(...) instead.");
    return viewed;
  }
  Tensor view_as(const Tensor& other, call_site = {}) const { return view(other.sizes()); }
  Tensor reshape(IntArrayRef wanted, call_site = {}) const {
    Tensor viewed = try_view(wanted);
    return viewed.defined() ? viewed : contiguous().view(wanted);
  }
  Tensor reshape_as(const Tensor& other, call_site = {}) const { return reshape(other.sizes()); }
  Tensor flatten(int64_t first = 0, int64_t last = -1, call_site = {}) const {
    if (dim() == 0) return reshape({1});
    std::vector<int64_t> wanted(state().sizes.begin(), state().sizes.begin() + wrap(first));
    wanted.push_back(1);
    for (size_t d = wrap(first); d <= wrap(last); d++) wanted.back() *= state().sizes[d];
    wanted.insert(wanted.end(), state().sizes.begin() + wrap(last) + 1, state().sizes.end());
    return reshape(wanted);
  }

  // Copies.
  Tensor contiguous(MemoryFormat format = MemoryFormat::Contiguous, call_site = {}) const {
    if (is_contiguous(format)) return *this;
    return has_channels(format) ? channels_last(true).contiguous().channels_last(false) : clone();
  }
  Tensor clone(std::optional<MemoryFormat> = std::nullopt, call_site = {}) const {
    return copied(scalar_type(), is_cuda());
  }
  Tensor to(ScalarType type, bool = false, bool copy = false, std::optional<MemoryFormat> = std::nullopt,
            call_site = {}) const {
    return type == scalar_type() && !copy ? *this : copied(type, is_cuda());
  }
  Tensor to(TypeMeta type, bool = false, bool copy = false, call_site = {}) const {
    return to(type.toScalarType(), false, copy);
  }
  Tensor to(Device device, bool = false, bool copy = false, call_site = {}) const {
    return device.is_cuda() == is_cuda() && !copy ? *this : copied(scalar_type(), device.is_cuda());
  }
  Tensor to(DeviceType device, bool = false, bool copy = false, call_site = {}) const {
    return to(Device(device), false, copy);
  }
  Tensor to(Device device, ScalarType type, bool = false, bool copy = false, call_site = {}) const {
    return to(type, false, copy).to(device);
  }
  Tensor to(const TensorOptions& options, bool = false, bool copy = false, call_site = {}) const {
    const ScalarType type = options.dtype_opt().value_or(scalar_type());
    return to(options.device_opt().value_or(device()), type, false, copy);
  }
  Tensor to(const Tensor& other, bool = false, bool copy = false, call_site = {}) const {
    return to(other.options(), false, copy);
  }
  Tensor toType(ScalarType type, call_site = {}) const { return to(type); }
  Tensor type_as(const Tensor& other, call_site = {}) const { return to(other); }
  Tensor cpu(call_site = {}) const { return to(kCPU); }
  Tensor cuda(call_site = {}) const { return to(kCUDA); }
  Tensor to_float(call_site = {}) const { return to(kFloat); }
  Tensor& copy_(const Tensor& from, bool = false, call_site = {}) const {
    const Tensor fitting = from.expand(sizes()).to(scalar_type());
    write(fitting.packed_bytes());
    return self();
  }
  Tensor& fill_(const Scalar& value, call_site = {}) const {
    const size_t bytes = element_size();
    std::vector<char> packed(nbytes());
    for (size_t at = 0; at < packed.size(); at += bytes) store(packed.data() + at, value);
    write(packed);
    return self();
  }
  Tensor& zero_(call_site = {}) const {
    if (is_cuda() && is_dense()) {
      check(cudaMemset(address(), 0, nbytes()));
      return self();
    }
    return fill_(0);
  }
  /// With other sizes and, where its memory is too small for them, with new memory.
  Tensor& resize_(IntArrayRef sizes, REPLAY_SITE_PARAMS) const {
    replay_torch::tensor_state& changed = *state_;
    const size_t bytes = replay_torch::count(sizes) * element_size(), kept = nbytes();
    if (changed.offset * element_size() + bytes > changed.memory->bytes) {
      auto memory = replay_torch::allocate(bytes, is_cuda(), file, line);
      if (kept && is_cuda()) check(cudaMemcpy(memory->data, address(), kept, cudaMemcpyDeviceToDevice));
      if (kept && !is_cuda()) std::copy_n(address(), kept, memory->data);
      changed.memory = memory;
      changed.offset = 0;
    }
    changed.sizes = sizes.vec();
    changed.strides = replay_torch::packed_strides(sizes);
    return self();
  }

  Tensor& resize_as_(const Tensor& other, REPLAY_SITE_PARAMS) const { return resize_(other.sizes(), file, line); }

  // Sums, means, extremes and arithmetic: replay/torch_operators.h.
  Tensor max(call_site = {}) const;
  Tensor min(call_site = {}) const;
  Tensor sum(IntArrayRef dimensions, bool keeps = false, std::optional<ScalarType> type = std::nullopt,
             call_site = {}) const;
  Tensor sum(int64_t dimension, bool keeps = false, std::optional<ScalarType> type = std::nullopt,
             call_site = {}) const {
    return sum(IntArrayRef(dimension), keeps, type);
  }
  Tensor sum(std::optional<ScalarType> type = std::nullopt, call_site = {}) const {
    return sum(IntArrayRef(), false, type);
  }
  Tensor mean(IntArrayRef dimensions, bool keeps = false, std::optional<ScalarType> type = std::nullopt,
              call_site = {}) const;
  Tensor mean(int64_t dimension, bool keeps = false, std::optional<ScalarType> type = std::nullopt,
              call_site = {}) const {
    return mean(IntArrayRef(dimension), keeps, type);
  }
  Tensor mean(std::optional<ScalarType> type = std::nullopt, call_site = {}) const {
    return mean(IntArrayRef(), false, type);
  }
#define REPLAY_ARITHMETIC(name) \
  Tensor name(const Tensor& other, call_site = {}) const; \
  Tensor name(const Scalar& number, call_site = {}) const; \
  Tensor& name##_(const Tensor& other, call_site = {}) const; \
  Tensor& name##_(const Scalar& number, call_site = {}) const;
  REPLAY_ARITHMETIC(add)
  REPLAY_ARITHMETIC(sub)
  REPLAY_ARITHMETIC(mul)
  REPLAY_ARITHMETIC(div)
#undef REPLAY_ARITHMETIC
  Tensor add(const Tensor& other, const Scalar& alpha, call_site = {}) const;
  Tensor sub(const Tensor& other, const Scalar& alpha, call_site = {}) const;
  Tensor& add_(const Tensor& other, const Scalar& alpha, call_site = {}) const;
  Tensor& sub_(const Tensor& other, const Scalar& alpha, call_site = {}) const;
  Tensor mm(const Tensor& other, call_site = {}) const;
  Tensor true_divide(const Tensor& other, call_site = {}) const { return div(other); }
  Tensor& true_divide_(const Tensor& other, call_site = {}) const { return div_(other); }

  // Functions of elements, comparisons and choices by a mask: replay/torch_math.h.
#define REPLAY_FUNCTION(name) \
  Tensor name(call_site = {}) const; \
  Tensor& name##_(call_site = {}) const;
  REPLAY_FUNCTION(exp)
  REPLAY_FUNCTION(log)
  REPLAY_FUNCTION(log2)
  REPLAY_FUNCTION(sqrt)
  REPLAY_FUNCTION(rsqrt)
  REPLAY_FUNCTION(sin)
  REPLAY_FUNCTION(cos)
  REPLAY_FUNCTION(tanh)
  REPLAY_FUNCTION(sigmoid)
  REPLAY_FUNCTION(reciprocal)
  REPLAY_FUNCTION(abs)
  REPLAY_FUNCTION(neg)
  REPLAY_FUNCTION(relu)
  REPLAY_FUNCTION(square)
  REPLAY_FUNCTION(floor)
  REPLAY_FUNCTION(ceil)
  REPLAY_FUNCTION(round)
  REPLAY_FUNCTION(sign)
#undef REPLAY_FUNCTION
#define REPLAY_COMPARISON(name) \
  Tensor name(const Tensor& other, call_site = {}) const; \
  Tensor name(const Scalar& number, call_site = {}) const;
  REPLAY_COMPARISON(eq)
  REPLAY_COMPARISON(ne)
  REPLAY_COMPARISON(lt)
  REPLAY_COMPARISON(le)
  REPLAY_COMPARISON(gt)
  REPLAY_COMPARISON(ge)
#undef REPLAY_COMPARISON
  Tensor logical_not(call_site = {}) const;
  Tensor logical_and(const Tensor& other, call_site = {}) const;
  Tensor logical_or(const Tensor& other, call_site = {}) const;
  Tensor any(call_site = {}) const;
  Tensor all(call_site = {}) const;
  Tensor maximum(const Tensor& other, call_site = {}) const;
  Tensor minimum(const Tensor& other, call_site = {}) const;
  Tensor clamp(const std::optional<Scalar>& least, const std::optional<Scalar>& most = std::nullopt, call_site = {}) const;
  Tensor& clamp_(const std::optional<Scalar>& least, const std::optional<Scalar>& most = std::nullopt, call_site = {}) const;
  Tensor clamp_min(const Scalar& least, call_site = {}) const;
  Tensor clamp_max(const Scalar& most, call_site = {}) const;
  Tensor& clamp_min_(const Scalar& least, call_site = {}) const;
  Tensor& clamp_max_(const Scalar& most, call_site = {}) const;
  Tensor pow(const Scalar& exponent, call_site = {}) const;
  Tensor masked_fill(const Tensor& mask, const Scalar& value, call_site = {}) const;
  Tensor& masked_fill_(const Tensor& mask, const Scalar& value, call_site = {}) const;
  Tensor& masked_fill_(const Tensor& mask, const Tensor& value, call_site = {}) const;
  Tensor masked_select(const Tensor& mask, call_site = {}) const;

  // Elements by index, repeated and in order: replay/torch_indexing.h.
  std::vector<Tensor> split(int64_t size, int64_t dimension = 0, call_site = {}) const;
  std::vector<Tensor> chunk(int64_t chunks, int64_t dimension = 0, call_site = {}) const;
  std::vector<Tensor> unbind(int64_t dimension = 0, call_site = {}) const;
  Tensor index_select(int64_t dimension, const Tensor& index, call_site = {}) const;
  Tensor index(std::initializer_list<Tensor> indices, call_site = {}) const;
  Tensor gather(int64_t dimension, const Tensor& index, call_site = {}) const;
  Tensor scatter(int64_t dimension, const Tensor& index, const Tensor& from, call_site = {}) const;
  Tensor& scatter_(int64_t dimension, const Tensor& index, const Tensor& from, call_site = {}) const;
  Tensor& scatter_(int64_t dimension, const Tensor& index, const Scalar& value, call_site = {}) const;
  Tensor scatter_add(int64_t dimension, const Tensor& index, const Tensor& from, call_site = {}) const;
  Tensor& scatter_add_(int64_t dimension, const Tensor& index, const Tensor& from, call_site = {}) const;
  Tensor& index_add_(int64_t dimension, const Tensor& index, const Tensor& from, const Scalar& alpha = 1,
                     call_site = {}) const;
  Tensor& index_copy_(int64_t dimension, const Tensor& index, const Tensor& from, call_site = {}) const;
  Tensor nonzero(call_site = {}) const;
  Tensor repeat(IntArrayRef repeats, call_site = {}) const;
  Tensor repeat_interleave(int64_t repeats, std::optional<int64_t> dimension = std::nullopt, call_site = {}) const;
  Tensor cumsum(int64_t dimension, std::optional<ScalarType> type = std::nullopt, call_site = {}) const;
  std::tuple<Tensor, Tensor> max(int64_t dimension, bool keeps = false, call_site = {}) const;
  std::tuple<Tensor, Tensor> min(int64_t dimension, bool keeps = false, call_site = {}) const;
  Tensor argmax(std::optional<int64_t> dimension = std::nullopt, bool keeps = false, call_site = {}) const;
  Tensor argmin(std::optional<int64_t> dimension = std::nullopt, bool keeps = false, call_site = {}) const;
  std::tuple<Tensor, Tensor> sort(int64_t dimension = -1, bool descending = false, call_site = {}) const;
  Tensor argsort(int64_t dimension = -1, bool descending = false, call_site = {}) const;
  Tensor bmm(const Tensor& other, call_site = {}) const;
  Tensor matmul(const Tensor& other, call_site = {}) const;

  Tensor new_empty(IntArrayRef sizes, TensorOptions options = {}) const;
  Tensor new_zeros(IntArrayRef sizes, TensorOptions options = {}) const;
  Tensor new_ones(IntArrayRef sizes, TensorOptions options = {}) const;
  Tensor new_full(IntArrayRef sizes, const Scalar& value, TensorOptions options = {}) const;

  /// Its elements one behind the other, in the order of the indices.
  std::vector<char> packed_bytes() const {
    const size_t bytes = element_size();
    std::vector<char> packed(nbytes());
    if (packed.empty()) return packed;
    const char* first = address();
    std::vector<char> whole;
    if (is_dense() && !is_contiguous()) {
      whole.resize(packed.size());
      read(whole.data(), address(), whole.size());
      first = whole.data();
    }
    char* to = packed.data();
    replay_torch::each_run(sizes(), strides(), [&](int64_t offset, int64_t run) {
      if (whole.empty())
        read(to, first + offset * bytes, run * bytes);
      else
        std::copy_n(first + offset * bytes, run * bytes, to);
      to += run * bytes;
    });
    return packed;
  }
  /// The same the other way round.
  void write(const std::vector<char>& packed) const {
    const size_t bytes = element_size();
    const char* from = packed.data();
    std::vector<char> whole;
    if (is_dense() && !is_contiguous()) whole.resize(packed.size());
    char* first = whole.empty() ? address() : whole.data();
    replay_torch::each_run(sizes(), strides(), [&](int64_t offset, int64_t run) {
      char* to = first + offset * bytes;
      if (whole.empty() && is_cuda())
        check(cudaMemcpy(to, from, run * bytes, cudaMemcpyHostToDevice));
      else
        std::copy_n(from, run * bytes, to);
      from += run * bytes;
    });
    if (whole.empty()) return;
    if (is_cuda())
      check(cudaMemcpy(address(), whole.data(), whole.size(), cudaMemcpyHostToDevice));
    else
      std::copy_n(whole.data(), whole.size(), address());
  }

 private:
  const replay_torch::tensor_state& state() const {
    if (state_ == nullptr) replay_torch::fail("an undefined tensor is used");
    return *state_;
  }
  char* address() const {
    return state().memory->data ? state().memory->data + state().offset * static_cast<int64_t>(element_size()) : nullptr;
  }
  static bool is_channels_last(MemoryFormat format) {
    return format == MemoryFormat::ChannelsLast || format == MemoryFormat::ChannelsLast3d;
  }
  /// Whether it has the dimensions for channels as the last one.
  bool has_channels(MemoryFormat format) const {
    return is_channels_last(format) && dim() == (format == MemoryFormat::ChannelsLast ? 4 : 5);
  }
  /// Its channels, the second dimension, as the last one, or back.
  Tensor channels_last(bool to_last) const {
    std::vector<int64_t> order(dim());
    std::iota(order.begin(), order.end(), 0);
    if (to_last)
      std::rotate(order.begin() + 1, order.begin() + 2, order.end());
    else
      std::rotate(order.begin() + 1, order.end() - 1, order.end());
    return permute(order);
  }
  /// Functions in place change what a tensor refers to, and give it back.
  Tensor& self() const { return const_cast<Tensor&>(*this); }
  static void check(cudaError_t error) {
    if (error != cudaSuccess) replay_torch::fail(str("CUDA error: ", cudaGetErrorString(error)));
  }
  void read(char* to, const char* from, size_t bytes) const {
    if (is_cuda())
      check(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost));
    else
      std::copy_n(from, bytes, to);
  }
  void store(char* to, const Scalar& value) const {
    replay_torch::store_number(scalar_type(), to, {value.isFloatingPoint(), value.toDouble(), value.toLong()});
  }
  size_t wrap(int64_t dimension) const {
    return static_cast<size_t>(replay_torch::wrap_dimension(dimension, dim(), dim()));
  }
  void expect_dimensions(size_t wanted, const char* file, uint32_t line) const {
    if (wanted != state().sizes.size())
      replay_torch::fail(file, line, str("TensorAccessor expected ", wanted, " dims but tensor has ", dim()));
  }
  /// Whether its elements fill their memory, in some order of the dimensions.
  bool is_dense() const {
    std::vector<std::pair<int64_t, int64_t>> order;
    for (size_t i = 0; i < state().sizes.size(); i++)
      if (state().sizes[i] != 1) order.emplace_back(state().strides[i], state().sizes[i]);
    std::sort(order.begin(), order.end());
    int64_t stride = 1;
    for (const auto& [own, size] : order) {
      if (own != stride) return numel() == 0;
      stride *= size;
    }
    return true;
  }
  template <class Change>
  Tensor view_with(Change change) const {
    auto view = std::make_shared<replay_torch::tensor_state>(state());
    change(*view);
    return Tensor(view);
  }
  /// The elements with other sizes, if strides can tell them; -1 is the size that is left.
  Tensor try_view(IntArrayRef given) const {
    std::vector<int64_t> wanted = given.vec();
    int64_t known = 1;
    std::optional<size_t> open;
    for (size_t i = 0; i < wanted.size(); i++) {
      if (wanted[i] == -1)
        open = i;
      else
        known *= wanted[i];
    }
    if (open) wanted[*open] = known ? numel() / known : 0;
    if (replay_torch::count(wanted) != numel())
      replay_torch::fail(str("shape '", given, "' is invalid for input of size ", numel()));
    std::vector<int64_t> strides = replay_torch::packed_strides(wanted);
    if (!is_contiguous()) {
      // Chunks of dimensions one behind the other; each new dimension lies within one.
      size_t d = state().sizes.size(), w = wanted.size();
      while (d > 0) {
        const int64_t base = state().strides[d - 1];
        int64_t chunk = 1;
        do
          chunk *= state().sizes[--d];
        while (d > 0 && (state().sizes[d - 1] == 1 || state().strides[d - 1] == chunk * base));
        int64_t filled = 1;
        while (w > 0 && (filled < chunk || wanted[w - 1] == 1)) {
          strides[w - 1] = filled * base;
          filled *= wanted[--w];
        }
        if (filled != chunk) return Tensor();
      }
    }
    return view_with([&](replay_torch::tensor_state& view) {
      view.sizes = wanted;
      view.strides = strides;
    });
  }
  Tensor copied(ScalarType type, bool on_device) const;

  std::shared_ptr<replay_torch::tensor_state> state_;
};
}  // namespace at

namespace replay_torch {
/// The second tensor of an operator, where the sources write it.
struct operand : call_site {
  const at::Tensor& tensor;
  operand(const at::Tensor& tensor, REPLAY_SITE_PARAMS) : call_site(file, line), tensor(tensor) {}
};
}  // namespace replay_torch

/// A tensor that may be absent. An absent tensor of the harness is a null pointer in its call.
template <>
class std::optional<at::Tensor> {
 public:
  using value_type = at::Tensor;
  optional() = default;
  optional(std::nullopt_t) {}
  optional(const at::Tensor& tensor) : tensor_(tensor), has_value_(true) {}
  template <class T, class = std::enable_if_t<replay_torch::is_element<T>::value>>
  optional(T* data) : tensor_(data), has_value_(data != nullptr) {}
  optional& operator=(std::nullopt_t) { return *this = optional(); }
  bool has_value() const { return has_value_; }
  explicit operator bool() const { return has_value_; }
  const at::Tensor& value() const {
    if (!has_value_) replay_torch::fail("bad optional access: the tensor is absent");
    return tensor_;
  }
  at::Tensor& value() { return const_cast<at::Tensor&>(std::as_const(*this).value()); }
  const at::Tensor& operator*() const { return value(); }
  at::Tensor& operator*() { return value(); }
  const at::Tensor* operator->() const { return &value(); }
  at::Tensor* operator->() { return &value(); }
  at::Tensor value_or(const at::Tensor& otherwise) const { return has_value_ ? tensor_ : otherwise; }
  void reset() { *this = optional(); }
  template <class... A>
  at::Tensor& emplace(A&&... arguments) {
    *this = optional(at::Tensor(std::forward<A>(arguments)...));
    return tensor_;
  }
  friend bool operator==(const optional& a, std::nullopt_t) { return !a.has_value_; }
  friend bool operator!=(const optional& a, std::nullopt_t) { return a.has_value_; }

 private:
  at::Tensor tensor_;
  bool has_value_ = false;
};

namespace at {
using TensorList = ArrayRef<Tensor>;
using ITensorListRef = ArrayRef<Tensor>;
using OptionalTensorRef = std::optional<Tensor>;

inline Tensor empty_strided(IntArrayRef sizes, IntArrayRef strides, TensorOptions options = {},
                            REPLAY_SITE_PARAMS) {
  for (int64_t size : sizes)
    if (size < 0) replay_torch::fail(file, line, str("a tensor of sizes ", sizes));
  int64_t elements = sizes.size() && replay_torch::count(sizes) == 0 ? 0 : 1;
  for (size_t i = 0; elements && i < sizes.size(); i++) elements += (sizes[i] - 1) * strides[i];
  const ScalarType type = options.dtype();
  auto memory = replay_torch::allocate(elements * elementSize(type), options.device().is_cuda(), file, line);
  return Tensor(std::make_shared<replay_torch::tensor_state>(
      replay_torch::tensor_state{memory, 0, sizes.vec(), strides.vec(), type}));
}
inline Tensor empty(IntArrayRef sizes, TensorOptions options = {},
                    std::optional<MemoryFormat> format = std::nullopt, REPLAY_SITE_PARAMS) {
  const MemoryFormat wanted = format.value_or(options.memory_format_opt().value_or(MemoryFormat::Contiguous));
  if (wanted == MemoryFormat::ChannelsLast || wanted == MemoryFormat::ChannelsLast3d)
    replay_torch::fail(file, line, "a new tensor with its channels last is not supported");
  return empty_strided(sizes, replay_torch::packed_strides(sizes), options, file, line);
}
inline Tensor zeros(IntArrayRef sizes, TensorOptions options = {}, REPLAY_SITE_PARAMS) {
  Tensor made = empty(sizes, options, std::nullopt, file, line);
  made.zero_();
  return made;
}
inline Tensor full(IntArrayRef sizes, const Scalar& value, TensorOptions options, REPLAY_SITE_PARAMS) {
  Tensor made = empty(sizes, options, std::nullopt, file, line);
  made.fill_(value);
  return made;
}
inline Tensor full(IntArrayRef sizes, const Scalar& value, REPLAY_SITE_PARAMS) {
  const ScalarType type = value.isFloatingPoint() ? kFloat : value.isBoolean() ? kBool : kLong;
  return full(sizes, value, TensorOptions(type), file, line);
}
inline Tensor ones(IntArrayRef sizes, TensorOptions options = {}, REPLAY_SITE_PARAMS) {
  return full(sizes, 1, options, file, line);
}
/// The options of `other`, unless `options` say otherwise.
inline TensorOptions options_like(const Tensor& other, TensorOptions options) {
  return other.options().dtype(options.dtype_opt()).device(options.device_opt());
}
inline Tensor empty_like(const Tensor& other, TensorOptions options = {},
                         std::optional<MemoryFormat> format = std::nullopt, REPLAY_SITE_PARAMS) {
  // A dense tensor keeps its order of dimensions.
  const MemoryFormat wanted = format.value_or(options.memory_format_opt().value_or(MemoryFormat::Preserve));
  if (wanted != MemoryFormat::Preserve && wanted != MemoryFormat::Contiguous)
    replay_torch::fail(file, line, "a new tensor with its channels last is not supported");
  const bool keeps = other.is_non_overlapping_and_dense() && wanted == MemoryFormat::Preserve;
  const std::vector<int64_t> strides = keeps ? other.strides().vec() : replay_torch::packed_strides(other.sizes());
  return empty_strided(other.sizes(), strides, options_like(other, options), file, line);
}
inline Tensor zeros_like(const Tensor& other, TensorOptions options = {},
                         std::optional<MemoryFormat> format = std::nullopt, REPLAY_SITE_PARAMS) {
  Tensor made = empty_like(other, options, format, file, line);
  made.zero_();
  return made;
}
inline Tensor full_like(const Tensor& other, const Scalar& value, TensorOptions options = {},
                        std::optional<MemoryFormat> format = std::nullopt, REPLAY_SITE_PARAMS) {
  Tensor made = empty_like(other, options, format, file, line);
  made.fill_(value);
  return made;
}
inline Tensor ones_like(const Tensor& other, TensorOptions options = {},
                        std::optional<MemoryFormat> format = std::nullopt, REPLAY_SITE_PARAMS) {
  return full_like(other, 1, options, format, file, line);
}
/// Memory of somebody else as a tensor; on the device if the options say so or kernels can use it.
inline Tensor from_blob(void* data, IntArrayRef sizes, IntArrayRef strides, TensorOptions options = {}) {
  const ScalarType type = options.dtype();
  const bool on_device = options.device().is_cuda();
  const size_t bytes = replay_torch::count(sizes) * elementSize(type);
  auto memory = std::make_shared<replay_torch::storage>(static_cast<char*>(data), bytes, on_device, false);
  return Tensor(std::make_shared<replay_torch::tensor_state>(
      replay_torch::tensor_state{memory, 0, sizes.vec(), strides.vec(), type}));
}
inline Tensor from_blob(void* data, IntArrayRef sizes, TensorOptions options = {}) {
  return from_blob(data, sizes, replay_torch::packed_strides(sizes), options);
}
template <class T>
Tensor tensor(const std::vector<T>& values, TensorOptions options = {}) {
  const Tensor host = empty({static_cast<int64_t>(values.size())}, TensorOptions(CppTypeToScalarType<T>::value));
  std::copy(values.begin(), values.end(), host.data_ptr<T>());
  return host.to(options_like(host, options));
}
template <class T>
Tensor tensor(std::initializer_list<T> values, TensorOptions options = {}) {
  return tensor(std::vector<T>(values), options);
}

inline Tensor Tensor::new_empty(IntArrayRef sizes, TensorOptions options) const {
  return empty(sizes, options_like(*this, options));
}
inline Tensor Tensor::new_zeros(IntArrayRef sizes, TensorOptions options) const {
  return zeros(sizes, options_like(*this, options));
}
inline Tensor Tensor::new_ones(IntArrayRef sizes, TensorOptions options) const {
  return ones(sizes, options_like(*this, options));
}
inline Tensor Tensor::new_full(IntArrayRef sizes, const Scalar& value, TensorOptions options) const {
  return full(sizes, value, options_like(*this, options));
}
inline Tensor Tensor::copied(ScalarType type, bool on_device) const {
  const Tensor made = empty(sizes(), TensorOptions(type).device(on_device ? kCUDA : kCPU));
  if (type == scalar_type() && is_cuda() && on_device && is_contiguous()) {
    check(cudaMemcpy(made.address(), address(), nbytes(), cudaMemcpyDeviceToDevice));
    return made;
  }
  const std::vector<char> packed = packed_bytes();
  if (type == scalar_type()) {
    made.write(packed);
    return made;
  }
  const size_t from_bytes = element_size(), to_bytes = elementSize(type);
  std::vector<char> converted(made.nbytes());
  for (int64_t i = 0; i < numel(); i++) {
    const auto number = replay_torch::load_number(scalar_type(), packed.data() + i * from_bytes);
    replay_torch::store_number(type, converted.data() + i * to_bytes, number);
  }
  made.write(converted);
  return made;
}
}  // namespace at

namespace replay_torch {
/// A tensor of the harness for a function that may change what the parameter refers to; absent for a null pointer.
template <class T>
class changed_tensor {
 public:
  explicit changed_tensor(T* data) : data_(data) {}
  operator at::Tensor&() const { return keep<at::Tensor>(); }
  operator std::optional<at::Tensor>&() const { return keep<std::optional<at::Tensor>>(); }

 private:
  template <class Kept>
  Kept& keep() const {
    static auto* const all = new std::vector<std::unique_ptr<Kept>>;
    all->push_back(std::make_unique<Kept>(data_));
    return *all->back();
  }
  T* data_;
};
template <class T>
changed_tensor<T> changed(T* data) {
  return changed_tensor<T>(data);
}
}  // namespace replay_torch

namespace at {
inline std::ostream& operator<<(std::ostream& out, const Tensor& tensor) {
  if (!tensor.defined()) return out << "[ Tensor (undefined) ]";
  return out << "[ " << tensor.device() << tensor.scalar_type() << "Type" << tensor.sizes() << " ]";
}
inline std::optional<Device> device_of(const Tensor& tensor) {
  return tensor.defined() ? std::optional<Device>(tensor.device()) : std::nullopt;
}
}  // namespace at

namespace torch {
using namespace at;
using at::Tensor;
namespace jit {
struct CustomClassHolder : c10::intrusive_ptr_target {};
}  // namespace jit
using CustomClassHolder = jit::CustomClassHolder;
struct NoGradGuard {};
struct AutoGradMode {
  explicit AutoGradMode(bool) {}
};
}  // namespace torch
