// PyTorch's small types: element types, devices, options, lists, scalars, checks.
// PyTorch C++ API: "c10::ScalarType", "c10::TensorOptions", "c10::ArrayRef"; c10/util/Exception.h.
#pragma once

#include <cstdint>

#include "replay/memory.h"
#include "replay/torch_kernels.h"

namespace replay_torch {
/// Ends the replay: a check of the sources failed, or something of PyTorch is not here.
[[noreturn]] inline void fail(const char* file, uint32_t line, const std::string& why) {
  ::replay_rt::abi->device_abort(why.c_str(), replay_site{file, line});
}
/// Where the sources call an operation on tensors: the last parameter of each. What an operation itself calls is no call of the
/// sources.
class call_site {
 public:
  call_site(REPLAY_SITE_PARAMS) : outer_(current()) {
    if (!is_in_these_headers(file)) current() = replay_site{file, line};
  }
  call_site(const call_site&) = delete;
  ~call_site() { current() = outer_; }
  static replay_site& current() {
    static replay_site site{nullptr, 0};
    return site;
  }

 private:
  static bool is_in_these_headers(const char* file) {
    static const std::string folder(__FILE__, std::string(__FILE__).rfind('/') + 1);
    return std::string(file).compare(0, folder.size(), folder) == 0;
  }
  replay_site outer_;
};
/// The number of an element, where the sources ask for it.
struct called_index : call_site {
  int64_t index;
  called_index(int64_t index, REPLAY_SITE_PARAMS) : call_site(file, line), index(index) {}
};
/// Ends the replay within an operation that the sources call.
[[noreturn]] inline void fail(const std::string& why) {
  const replay_site site = call_site::current();
  fail(site.file, site.line, why);
}
/// Ends the replay: the harness's call and the functions that it calls differ.
[[noreturn]] inline void misfit(const std::string& why, const char* file = nullptr, uint32_t line = 0) {
  ::replay_rt::abi->call_misfit(why.c_str(), replay_site{file, line});
}
}  // namespace replay_torch

namespace c10 {
template <class T>
using optional = std::optional<T>;
using std::make_optional;
using std::nullopt;
using std::nullopt_t;
using std::string_view;
using SymInt = int64_t;

/// The arguments, written one behind the other.
template <class... A>
std::string str(const A&... parts) {
  std::ostringstream text;
  (void)std::initializer_list<int>{((text << parts), 0)...};
  return text.str();
}

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

enum class ScalarType : int8_t {
  Byte = 0,
  Char = 1,
  Short = 2,
  Int = 3,
  Long = 4,
  Half = 5,
  Float = 6,
  Double = 7,
  ComplexHalf = 8,
  ComplexFloat = 9,
  ComplexDouble = 10,
  Bool = 11,
  QInt8 = 12,
  QUInt8 = 13,
  QInt32 = 14,
  BFloat16 = 15,
  Float8_e5m2 = 23,
  Float8_e4m3fn = 24,
  UInt16 = 27,
  UInt32 = 28,
  UInt64 = 29,
  Undefined = 45,
};
constexpr ScalarType kByte = ScalarType::Byte, kUInt8 = ScalarType::Byte, kChar = ScalarType::Char,
                     kInt8 = ScalarType::Char, kShort = ScalarType::Short, kInt16 = ScalarType::Short,
                     kInt = ScalarType::Int, kInt32 = ScalarType::Int, kLong = ScalarType::Long,
                     kInt64 = ScalarType::Long, kHalf = ScalarType::Half, kFloat16 = ScalarType::Half,
                     kFloat = ScalarType::Float, kFloat32 = ScalarType::Float,
                     kDouble = ScalarType::Double, kFloat64 = ScalarType::Double,
                     kBool = ScalarType::Bool, kBFloat16 = ScalarType::BFloat16,
                     kFloat8_e5m2 = ScalarType::Float8_e5m2,
                     kFloat8_e4m3fn = ScalarType::Float8_e4m3fn, kUInt16 = ScalarType::UInt16,
                     kUInt32 = ScalarType::UInt32, kUInt64 = ScalarType::UInt64;

inline const char* toString(ScalarType type) {
  switch (type) {
    case ScalarType::Byte: return "Byte";
    case ScalarType::Char: return "Char";
    case ScalarType::Short: return "Short";
    case ScalarType::Int: return "Int";
    case ScalarType::Long: return "Long";
    case ScalarType::Half: return "Half";
    case ScalarType::Float: return "Float";
    case ScalarType::Double: return "Double";
    case ScalarType::Bool: return "Bool";
    case ScalarType::BFloat16: return "BFloat16";
    case ScalarType::Float8_e5m2: return "Float8_e5m2";
    case ScalarType::Float8_e4m3fn: return "Float8_e4m3fn";
    case ScalarType::UInt16: return "UInt16";
    case ScalarType::UInt32: return "UInt32";
    case ScalarType::UInt64: return "UInt64";
    default: return "a type without elements here";
  }
}
inline std::ostream& operator<<(std::ostream& out, ScalarType type) { return out << toString(type); }

namespace impl {
/// The type of an element here. In the float64 shadow floating-point types are double.
template <ScalarType Type>
struct ScalarTypeToCPPType {};
template <> struct ScalarTypeToCPPType<ScalarType::Byte> { using type = uint8_t; };
template <> struct ScalarTypeToCPPType<ScalarType::Char> { using type = int8_t; };
template <> struct ScalarTypeToCPPType<ScalarType::Short> { using type = int16_t; };
template <> struct ScalarTypeToCPPType<ScalarType::Int> { using type = int; };
template <> struct ScalarTypeToCPPType<ScalarType::Long> { using type = int64_t; };
template <> struct ScalarTypeToCPPType<ScalarType::Half> { using type = Half; };
template <> struct ScalarTypeToCPPType<ScalarType::Float> { using type = replay_torch::real; };
template <> struct ScalarTypeToCPPType<ScalarType::Double> { using type = double; };
template <> struct ScalarTypeToCPPType<ScalarType::Bool> { using type = bool; };
template <> struct ScalarTypeToCPPType<ScalarType::BFloat16> { using type = BFloat16; };
template <> struct ScalarTypeToCPPType<ScalarType::UInt16> { using type = uint16_t; };
template <> struct ScalarTypeToCPPType<ScalarType::UInt32> { using type = uint32_t; };
template <> struct ScalarTypeToCPPType<ScalarType::UInt64> { using type = uint64_t; };
template <ScalarType Type>
using ScalarTypeToCPPTypeT = typename ScalarTypeToCPPType<Type>::type;
}  // namespace impl

/// The element type of values of type `T`; in the shadow, where a double may be either, that of a float.
template <class T>
struct CppTypeToScalarType {};
#define REPLAY_ELEMENT(T, Name)                             \
  template <>                                               \
  struct CppTypeToScalarType<T> {                           \
    static constexpr ScalarType value = ScalarType::Name;   \
  };
REPLAY_ELEMENT(uint8_t, Byte)
REPLAY_ELEMENT(int8_t, Char)
REPLAY_ELEMENT(int16_t, Short)
REPLAY_ELEMENT(int, Int)
REPLAY_ELEMENT(long, Long)
REPLAY_ELEMENT(long long, Long)
REPLAY_ELEMENT(Half, Half)
REPLAY_ELEMENT(__half, Half)
REPLAY_ELEMENT(replay_torch::real, Float)
#ifndef REPLAY_SHADOW
REPLAY_ELEMENT(double, Double)
#endif
REPLAY_ELEMENT(bool, Bool)
REPLAY_ELEMENT(BFloat16, BFloat16)
REPLAY_ELEMENT(__nv_bfloat16, BFloat16)
REPLAY_ELEMENT(uint16_t, UInt16)
REPLAY_ELEMENT(uint32_t, UInt32)
REPLAY_ELEMENT(unsigned long, UInt64)
REPLAY_ELEMENT(unsigned long long, UInt64)
#undef REPLAY_ELEMENT

/// Bytes of an element here: in the shadow a floating-point number has eight.
inline size_t elementSize(ScalarType type) {
  switch (type) {
    case ScalarType::Byte: case ScalarType::Char: case ScalarType::Bool: return 1;
    case ScalarType::Short: case ScalarType::UInt16: return 2;
    case ScalarType::Int: case ScalarType::UInt32: return 4;
    case ScalarType::Long: case ScalarType::UInt64: case ScalarType::Double: return 8;
    case ScalarType::Float: return sizeof(replay_torch::real);
    case ScalarType::Half: return sizeof(Half);
    case ScalarType::BFloat16: return sizeof(BFloat16);
    case ScalarType::Float8_e5m2: case ScalarType::Float8_e4m3fn:
#ifdef REPLAY_SHADOW
      return sizeof(double);
#else
      return 1;
#endif
    default: replay_torch::fail(str("a tensor of ", type, " is not supported"));
  }
}
inline bool isFloatingType(ScalarType type) {
  switch (type) {
    case ScalarType::Half: case ScalarType::Float: case ScalarType::Double: case ScalarType::BFloat16:
    case ScalarType::Float8_e5m2: case ScalarType::Float8_e4m3fn: return true;
    default: return false;
  }
}
inline bool isIntegralType(ScalarType type, bool with_bool) {
  return type == ScalarType::Bool ? with_bool : !isFloatingType(type) && type != ScalarType::Undefined;
}

/// The type that sums of elements of `type` are kept in.
inline ScalarType toAccumulateType(ScalarType type, bool is_cuda) {
  switch (type) {
    case ScalarType::Half: case ScalarType::BFloat16: return ScalarType::Float;
    case ScalarType::Float: return is_cuda ? ScalarType::Float : ScalarType::Double;
    case ScalarType::Double: case ScalarType::Bool: return type;
    default: return ScalarType::Long;
  }
}
/// The type that elements of `type` are computed with.
inline ScalarType toOpMathType(ScalarType type) {
  return type == ScalarType::Half || type == ScalarType::BFloat16 ? ScalarType::Float : type;
}

enum class DeviceType : int8_t { CPU = 0, CUDA = 1 };
constexpr DeviceType kCPU = DeviceType::CPU, kCUDA = DeviceType::CUDA;
using DeviceIndex = int8_t;
struct Device {
  Device(DeviceType type, DeviceIndex index = -1) : type_(type), index_(index) {}
  Device(const std::string& name)
      : type_(name.compare(0, 4, "cuda") == 0 ? kCUDA : kCPU), index_(name.find(':') == name.npos ? -1 : 0) {}
  Device(const char* name) : Device(std::string(name)) {}
  DeviceType type() const { return type_; }
  DeviceIndex index() const { return index_; }
  bool has_index() const { return index_ >= 0; }
  bool is_cuda() const { return type_ == kCUDA; }
  bool is_cpu() const { return type_ == kCPU; }
  std::string str() const { return is_cpu() ? "cpu" : has_index() ? "cuda:0" : "cuda"; }
  bool operator==(const Device& other) const { return type_ == other.type_ && index_ == other.index_; }
  bool operator!=(const Device& other) const { return !(*this == other); }

 private:
  DeviceType type_;
  DeviceIndex index_;
};
inline std::ostream& operator<<(std::ostream& out, DeviceType type) {
  return out << (type == kCUDA ? "cuda" : "cpu");
}
inline std::ostream& operator<<(std::ostream& out, const Device& device) { return out << device.str(); }

enum class Layout : int8_t { Strided };
constexpr Layout kStrided = Layout::Strided;
enum class MemoryFormat : int8_t { Contiguous, Preserve, ChannelsLast, ChannelsLast3d };

/// A list of somebody else.
template <class T>
class ArrayRef {
 public:
  using value_type = T;
  constexpr ArrayRef() : data_(nullptr), size_(0) {}
  constexpr ArrayRef(const T& one) : data_(&one), size_(1) {}
  constexpr ArrayRef(const T* data, size_t size) : data_(data), size_(size) {}
  constexpr ArrayRef(const T* begin, const T* end) : data_(begin), size_(end - begin) {}
  ArrayRef(const std::vector<T>& list) : data_(list.data()), size_(list.size()) {}
  template <size_t N>
  constexpr ArrayRef(const std::array<T, N>& list) : data_(list.data()), size_(N) {}
  template <size_t N>
  constexpr ArrayRef(const T (&list)[N]) : data_(list), size_(N) {}
  constexpr ArrayRef(const std::initializer_list<T>& list) : data_(list.begin()), size_(list.size()) {}
  constexpr const T* begin() const { return data_; }
  constexpr const T* end() const { return data_ + size_; }
  constexpr const T* data() const { return data_; }
  constexpr size_t size() const { return size_; }
  constexpr bool empty() const { return size_ == 0; }
  constexpr const T& operator[](size_t i) const { return data_[i]; }
  constexpr const T& at(size_t i) const { return data_[i]; }
  constexpr const T& front() const { return data_[0]; }
  constexpr const T& back() const { return data_[size_ - 1]; }
  ArrayRef slice(size_t begin, size_t count) const { return ArrayRef(data_ + begin, count); }
  ArrayRef slice(size_t begin) const { return slice(begin, size_ - begin); }
  bool equals(ArrayRef other) const { return std::equal(begin(), end(), other.begin(), other.end()); }
  std::vector<T> vec() const { return std::vector<T>(begin(), end()); }

 private:
  const T* data_;
  size_t size_;
};
using IntArrayRef = ArrayRef<int64_t>;
inline bool operator==(IntArrayRef a, IntArrayRef b) { return a.equals(b); }
inline bool operator!=(IntArrayRef a, IntArrayRef b) { return !a.equals(b); }
inline bool operator==(const std::vector<int64_t>& a, IntArrayRef b) { return IntArrayRef(a).equals(b); }
inline bool operator==(IntArrayRef a, const std::vector<int64_t>& b) { return a.equals(b); }
template <class T>
std::ostream& operator<<(std::ostream& out, const ArrayRef<T>& list) {
  out << '[';
  for (size_t i = 0; i < list.size(); i++) out << (i ? ", " : "") << list[i];
  return out << ']';
}
template <class T, unsigned>
using SmallVector = std::vector<T>;

/// One number of any type.
class Scalar {
 public:
  Scalar() : Scalar(0) {}
  template <class T, class = std::enable_if_t<std::is_arithmetic<T>::value>>
  Scalar(T value)
      : floats_(std::is_floating_point<T>::value), bool_(std::is_same<T, bool>::value),
        real_(static_cast<double>(value)), whole_(static_cast<int64_t>(value)) {}
  Scalar(Half value) : Scalar(static_cast<double>(value)) {}
  Scalar(BFloat16 value) : Scalar(static_cast<double>(value)) {}
  bool isFloatingPoint() const { return floats_; }
  bool isIntegral(bool with_bool = false) const { return !floats_ && (with_bool || !bool_); }
  bool isBoolean() const { return bool_; }
  template <class T>
  T to() const {
    if (floats_) return static_cast<T>(static_cast<std::conditional_t<std::is_integral<T>::value, double, T>>(real_));
    return static_cast<T>(whole_);
  }
  double toDouble() const { return to<double>(); }
  replay_torch::real toFloat() const { return to<replay_torch::real>(); }
  int toInt() const { return to<int>(); }
  int64_t toLong() const { return to<int64_t>(); }
  bool toBool() const { return floats_ ? real_ != 0 : whole_ != 0; }

 private:
  bool floats_, bool_;
  double real_;
  int64_t whole_;
};

}  // namespace c10

namespace caffe2 {
/// An element type, as `Tensor::dtype` gives it.
class TypeMeta {
 public:
  TypeMeta() = default;
  TypeMeta(c10::ScalarType type) : type_(type) {}
  operator c10::ScalarType() const { return type_; }
  c10::ScalarType toScalarType() const { return type_; }
  size_t itemsize() const { return c10::elementSize(type_); }
  std::string name() const { return c10::toString(type_); }
  friend bool operator==(TypeMeta a, TypeMeta b) { return a.type_ == b.type_; }
  friend bool operator!=(TypeMeta a, TypeMeta b) { return a.type_ != b.type_; }
  friend bool operator==(TypeMeta a, c10::ScalarType b) { return a.type_ == b; }
  friend bool operator!=(TypeMeta a, c10::ScalarType b) { return a.type_ != b; }
  friend bool operator==(c10::ScalarType a, TypeMeta b) { return a == b.type_; }
  friend bool operator!=(c10::ScalarType a, TypeMeta b) { return a != b.type_; }

 private:
  c10::ScalarType type_ = c10::ScalarType::Float;
};
inline std::ostream& operator<<(std::ostream& out, TypeMeta type) { return out << type.toScalarType(); }
}  // namespace caffe2

namespace c10 {
using caffe2::TypeMeta;
inline ScalarType typeMetaToScalarType(TypeMeta type) { return type.toScalarType(); }

/// What a new tensor is to be: float on the CPU, unless said otherwise.
struct TensorOptions {
  TensorOptions() = default;
  TensorOptions(ScalarType type) : type_(type) {}
  TensorOptions(TypeMeta type) : type_(type.toScalarType()) {}
  TensorOptions(Device device) : device_(device) {}
  TensorOptions(DeviceType type) : device_(type) {}
  TensorOptions(Layout) {}
  TensorOptions(MemoryFormat format) : format_(format) {}
  TensorOptions dtype(ScalarType type) const { return with([&](TensorOptions& o) { o.type_ = type; }); }
  TensorOptions dtype(TypeMeta type) const { return dtype(type.toScalarType()); }
  TensorOptions dtype(std::optional<ScalarType> type) const { return type ? dtype(*type) : *this; }
  template <class T>
  TensorOptions dtype() const {
    return dtype(CppTypeToScalarType<T>::value);
  }
  TensorOptions device(Device device) const { return with([&](TensorOptions& o) { o.device_ = device; }); }
  TensorOptions device(DeviceType type, DeviceIndex index = -1) const { return device(Device(type, index)); }
  TensorOptions device(std::optional<Device> place) const { return place ? device(*place) : *this; }
  TensorOptions device_index(DeviceIndex index) const { return device(kCUDA, index); }
  TensorOptions layout(Layout) const { return *this; }
  TensorOptions memory_format(MemoryFormat format) const { return with([&](TensorOptions& o) { o.format_ = format; }); }
  TensorOptions requires_grad(bool = true) const { return *this; }
  TensorOptions pinned_memory(bool = true) const { return *this; }
  TypeMeta dtype() const { return type_.value_or(ScalarType::Float); }
  Device device() const { return device_.value_or(Device(kCPU)); }
  bool has_dtype() const { return type_.has_value(); }
  bool has_device() const { return device_.has_value(); }
  std::optional<ScalarType> dtype_opt() const { return type_; }
  std::optional<Device> device_opt() const { return device_; }
  std::optional<MemoryFormat> memory_format_opt() const { return format_; }
  Layout layout() const { return kStrided; }
  bool requires_grad() const { return false; }

 private:
  template <class Change>
  TensorOptions with(Change change) const {
    TensorOptions options = *this;
    change(options);
    return options;
  }
  std::optional<ScalarType> type_;
  std::optional<Device> device_;
  std::optional<MemoryFormat> format_;
};
inline TensorOptions dtype(ScalarType type) { return TensorOptions(type); }
inline TensorOptions dtype(TypeMeta type) { return TensorOptions(type); }
inline TensorOptions device(Device device) { return TensorOptions(device); }
inline TensorOptions layout(Layout) { return TensorOptions(); }
inline TensorOptions requires_grad(bool = true) { return TensorOptions(); }

/// A pointer that counts its owners.
struct intrusive_ptr_target {
  virtual ~intrusive_ptr_target() = default;
};
template <class T>
class intrusive_ptr {
 public:
  intrusive_ptr() = default;
  intrusive_ptr(std::nullptr_t) {}
  explicit intrusive_ptr(std::shared_ptr<T> owner) : owner_(std::move(owner)) {}
  template <class From>
  intrusive_ptr(const intrusive_ptr<From>& other) : owner_(other.replay_owner()) {}
  template <class... A>
  static intrusive_ptr make(A&&... arguments) {
    return intrusive_ptr(std::make_shared<T>(std::forward<A>(arguments)...));
  }
  T* get() const { return owner_.get(); }
  T* operator->() const { return owner_.get(); }
  T& operator*() const { return *owner_; }
  operator bool() const { return owner_ != nullptr; }
  bool defined() const { return owner_ != nullptr; }
  void reset() { owner_.reset(); }
  size_t use_count() const { return owner_.use_count(); }
  const std::shared_ptr<T>& replay_owner() const { return owner_; }

 private:
  std::shared_ptr<T> owner_;
};
template <class T, class... A>
intrusive_ptr<T> make_intrusive(A&&... arguments) {
  return intrusive_ptr<T>::make(std::forward<A>(arguments)...);
}
}  // namespace c10

// Checks. A failed one ends the replay, with its message.
#define REPLAY_CHECK(condition, otherwise, ...)                                                   \
  if (!(condition))                                                                               \
  ::replay_torch::fail(__FILE__, __LINE__, ::replay_torch::message(otherwise, ::c10::str(__VA_ARGS__)))
namespace replay_torch {
inline std::string message(const char* otherwise, const std::string& given) {
  return given.empty() ? std::string(otherwise) : given;
}
}  // namespace replay_torch
#define TORCH_CHECK(condition, ...) \
  REPLAY_CHECK(condition, "Expected " #condition " to be true, but got false", ##__VA_ARGS__)
#define TORCH_CHECK_VALUE TORCH_CHECK
#define TORCH_CHECK_TYPE TORCH_CHECK
#define TORCH_CHECK_INDEX TORCH_CHECK
#define TORCH_CHECK_LINALG TORCH_CHECK
#define TORCH_CHECK_NOT_IMPLEMENTED TORCH_CHECK
#define TORCH_INTERNAL_ASSERT TORCH_CHECK
#define TORCH_INTERNAL_ASSERT_DEBUG_ONLY TORCH_CHECK
#define TORCH_CHECK_WITH(error, ...) TORCH_CHECK(__VA_ARGS__)
#define AT_ASSERT TORCH_CHECK
#define AT_ASSERTM TORCH_CHECK
#define AT_ERROR(...) ::replay_torch::fail(__FILE__, __LINE__, ::c10::str(__VA_ARGS__))
#define REPLAY_CHECK_TWO(a, b, op)                                                                \
  REPLAY_CHECK((a)op(b), "", "Check failed: " #a " " #op " " #b " (", (a), " vs. ", (b), ")")
#define TORCH_CHECK_EQ(a, b) REPLAY_CHECK_TWO(a, b, ==)
#define TORCH_CHECK_NE(a, b) REPLAY_CHECK_TWO(a, b, !=)
#define TORCH_CHECK_LT(a, b) REPLAY_CHECK_TWO(a, b, <)
#define TORCH_CHECK_LE(a, b) REPLAY_CHECK_TWO(a, b, <=)
#define TORCH_CHECK_GT(a, b) REPLAY_CHECK_TWO(a, b, >)
#define TORCH_CHECK_GE(a, b) REPLAY_CHECK_TWO(a, b, >=)
#define TORCH_WARN(...) ((void)0)
#define TORCH_WARN_ONCE(...) ((void)0)
#define C10_CUDA_CHECK(call)                                                                      \
  do {                                                                                            \
    const cudaError_t replay_error = (call);                                                      \
    if (replay_error != cudaSuccess)                                                              \
      ::replay_torch::fail(__FILE__, __LINE__,                                                    \
                           ::c10::str("CUDA error: ", cudaGetErrorString(replay_error)));         \
  } while (0)
#define AT_CUDA_CHECK(call) C10_CUDA_CHECK(call)
#define LEGACY_CONTIGUOUS_MEMORY_FORMAT ::c10::MemoryFormat::Contiguous
#define THCudaCheck(call) C10_CUDA_CHECK(call)
#define C10_CUDA_CHECK_WARN(call) ((void)(call))
#define C10_CUDA_KERNEL_LAUNCH_CHECK() C10_CUDA_CHECK(cudaGetLastError())
#define TORCH_CUDA_KERNEL_LAUNCH_CHECK C10_CUDA_KERNEL_LAUNCH_CHECK
#define C10_LIKELY(condition) (condition)
#define C10_UNLIKELY(condition) (condition)
#define C10_UNUSED __attribute__((unused))
#define TORCH_API
#define TORCH_CUDA_CU_API
#define TORCH_CUDA_CPP_API
#define C10_API
#define C10_CUDA_API
#define C10_EXPORT
