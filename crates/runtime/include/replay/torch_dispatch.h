// Dispatch by element type.
// PyTorch: ATen/Dispatch.h.
#pragma once

#include "replay/torch_tensor.h"

namespace replay_torch {
inline c10::ScalarType type_of(c10::ScalarType type) { return type; }
inline c10::ScalarType type_of(caffe2::TypeMeta type) { return type.toScalarType(); }
inline c10::ScalarType type_of(at::Tensor::Properties properties) { return properties.type_; }
/// Ends the replay: the dispatch `name` has no case for `type`.
[[noreturn]] inline void refuse_type(const char* name, c10::ScalarType type, const char* file, uint32_t line) {
  const std::string why = c10::str('"', name, "\" not implemented for '", type, '\'');
  blame_call_type(type, why, file, line);
  fail(file, line, why);
}
}  // namespace replay_torch

#define AT_DISPATCH_SWITCH(TYPE, NAME, ...)                                                       \
  [&] {                                                                                           \
    const auto& the_type = TYPE;                                                                  \
    constexpr const char* at_dispatch_name = NAME;                                                \
    const ::c10::ScalarType replay_type = ::replay_torch::type_of(the_type);                      \
    switch (replay_type) {                                                                        \
      __VA_ARGS__                                                                                 \
      default:                                                                                    \
        ::replay_torch::refuse_type(at_dispatch_name, replay_type, __FILE__, __LINE__);           \
    }                                                                                             \
  }()
#define AT_PRIVATE_CASE_TYPE_USING_HINT(TYPE, HINT, ...)                                          \
  case TYPE: {                                                                                    \
    using HINT [[maybe_unused]] = ::c10::impl::ScalarTypeToCPPTypeT<TYPE>;                        \
    return __VA_ARGS__();                                                                         \
  }
#define AT_DISPATCH_CASE(TYPE, ...) AT_PRIVATE_CASE_TYPE_USING_HINT(TYPE, scalar_t, __VA_ARGS__)
#define REPLAY_CASE(NAME, ...) AT_DISPATCH_CASE(::c10::ScalarType::NAME, __VA_ARGS__)

#define AT_DISPATCH_CASE_FLOATING_TYPES(...) REPLAY_CASE(Double, __VA_ARGS__) REPLAY_CASE(Float, __VA_ARGS__)
#define AT_DISPATCH_CASE_FLOATING_TYPES_AND_HALF(...) \
  AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__) REPLAY_CASE(Half, __VA_ARGS__)
#define AT_DISPATCH_CASE_REDUCED_FLOATING_TYPES(...) REPLAY_CASE(Half, __VA_ARGS__) REPLAY_CASE(BFloat16, __VA_ARGS__)
#define AT_DISPATCH_CASE_INTEGRAL_TYPES(...)                                                      \
  REPLAY_CASE(Byte, __VA_ARGS__)                                                                  \
  REPLAY_CASE(Char, __VA_ARGS__)                                                                  \
  REPLAY_CASE(Int, __VA_ARGS__)                                                                   \
  REPLAY_CASE(Long, __VA_ARGS__)                                                                  \
  REPLAY_CASE(Short, __VA_ARGS__)
#define AT_DISPATCH_CASE_ALL_TYPES(...) \
  AT_DISPATCH_CASE_INTEGRAL_TYPES(__VA_ARGS__) AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__)

#define REPLAY_DISPATCH(CASES, TYPE, NAME, ...) AT_DISPATCH_SWITCH(TYPE, NAME, CASES(__VA_ARGS__))
#define REPLAY_DISPATCH_1(CASES, A, TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, CASES(__VA_ARGS__) AT_DISPATCH_CASE(A, __VA_ARGS__))
#define REPLAY_DISPATCH_2(CASES, A, B, TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME,                        \
                     CASES(__VA_ARGS__) AT_DISPATCH_CASE(A, __VA_ARGS__) AT_DISPATCH_CASE(B, __VA_ARGS__))
#define REPLAY_DISPATCH_3(CASES, A, B, C, TYPE, NAME, ...)                                        \
  AT_DISPATCH_SWITCH(TYPE, NAME,                                                                  \
                     CASES(__VA_ARGS__) AT_DISPATCH_CASE(A, __VA_ARGS__)                          \
                         AT_DISPATCH_CASE(B, __VA_ARGS__) AT_DISPATCH_CASE(C, __VA_ARGS__))

#define AT_DISPATCH_FLOATING_TYPES(...) REPLAY_DISPATCH(AT_DISPATCH_CASE_FLOATING_TYPES, __VA_ARGS__)
#define AT_DISPATCH_FLOATING_TYPES_AND_HALF(...) REPLAY_DISPATCH(AT_DISPATCH_CASE_FLOATING_TYPES_AND_HALF, __VA_ARGS__)
#define AT_DISPATCH_FLOATING_TYPES_AND(...) REPLAY_DISPATCH_1(AT_DISPATCH_CASE_FLOATING_TYPES, __VA_ARGS__)
#define AT_DISPATCH_FLOATING_TYPES_AND2(...) REPLAY_DISPATCH_2(AT_DISPATCH_CASE_FLOATING_TYPES, __VA_ARGS__)
#define AT_DISPATCH_FLOATING_TYPES_AND3(...) REPLAY_DISPATCH_3(AT_DISPATCH_CASE_FLOATING_TYPES, __VA_ARGS__)
#define AT_DISPATCH_REDUCED_FLOATING_TYPES(...) REPLAY_DISPATCH(AT_DISPATCH_CASE_REDUCED_FLOATING_TYPES, __VA_ARGS__)
#define AT_DISPATCH_INTEGRAL_TYPES(...) REPLAY_DISPATCH(AT_DISPATCH_CASE_INTEGRAL_TYPES, __VA_ARGS__)
#define AT_DISPATCH_INTEGRAL_TYPES_AND(...) REPLAY_DISPATCH_1(AT_DISPATCH_CASE_INTEGRAL_TYPES, __VA_ARGS__)
#define AT_DISPATCH_ALL_TYPES(...) REPLAY_DISPATCH(AT_DISPATCH_CASE_ALL_TYPES, __VA_ARGS__)
#define AT_DISPATCH_ALL_TYPES_AND(...) REPLAY_DISPATCH_1(AT_DISPATCH_CASE_ALL_TYPES, __VA_ARGS__)
#define AT_DISPATCH_ALL_TYPES_AND2(...) REPLAY_DISPATCH_2(AT_DISPATCH_CASE_ALL_TYPES, __VA_ARGS__)
#define AT_DISPATCH_ALL_TYPES_AND3(...) REPLAY_DISPATCH_3(AT_DISPATCH_CASE_ALL_TYPES, __VA_ARGS__)
// Complex numbers have no tensors here: their types are as good as not asked for.
#define AT_DISPATCH_FLOATING_AND_COMPLEX_TYPES AT_DISPATCH_FLOATING_TYPES
#define AT_DISPATCH_FLOATING_AND_COMPLEX_TYPES_AND1 AT_DISPATCH_FLOATING_TYPES_AND
#define AT_DISPATCH_FLOATING_AND_COMPLEX_TYPES_AND2 AT_DISPATCH_FLOATING_TYPES_AND2
#define AT_DISPATCH_INDEX_TYPES(TYPE, NAME, ...)                                                  \
  AT_DISPATCH_SWITCH(TYPE, NAME,                                                                  \
                     AT_PRIVATE_CASE_TYPE_USING_HINT(::c10::ScalarType::Int, index_t, __VA_ARGS__) \
                         AT_PRIVATE_CASE_TYPE_USING_HINT(::c10::ScalarType::Long, index_t, __VA_ARGS__))
