// Products of matrices by a warp. CUDA C++ Programming Guide: "Warp Matrix Functions".
//
// Element i of lane l is element 32 i + l of the matrix, counted by rows; CUDA leaves the mapping open.
// Half operands have 16 elements a lane for 256, as CUDA's have: each is there twice. A result is the
// accumulator's old value plus each product in the order of k, each sum rounded once in float32; half
// accumulators are rounded once at the end.
#pragma once

#include "cuda_bf16.h"
#include "cuda_fp16.h"
#include "replay/warp_matrix.h"

namespace nvcuda {
namespace wmma {

struct row_major;
struct col_major;
struct matrix_a;
struct matrix_b;
struct accumulator;
enum layout_t { mem_row_major, mem_col_major };
namespace precision {
struct tf32;
}

/// The type of an element in a fragment.
template <class T> struct element;
template <> struct element<__half> { using type = __half; };
template <> struct element<__nv_bfloat16> { using type = __nv_bfloat16; };
template <> struct element<replay_rt::real> { using type = replay_rt::real; };
template <> struct element<precision::tf32> { using type = replay_rt::real; };
template <> struct element<signed char> { using type = signed char; };
template <> struct element<unsigned char> { using type = unsigned char; };
template <> struct element<int> { using type = int; };

template <class Use, int M, int N, int K> struct extent;
template <int M, int N, int K> struct extent<matrix_a, M, N, K> {
  static constexpr int rows = M, columns = K;
};
template <int M, int N, int K> struct extent<matrix_b, M, N, K> {
  static constexpr int rows = K, columns = N;
};
template <int M, int N, int K> struct extent<accumulator, M, N, K> {
  static constexpr int rows = M, columns = N;
};

/// The existing shapes, for operands of type `T`.
template <class T, int M, int N, int K> struct is_shape {
  static constexpr bool value = K == 16 && ((M == 16 && N == 16) || (M == 32 && N == 8) || (M == 8 && N == 32));
};
template <int M, int N, int K> struct is_shape<precision::tf32, M, N, K> {
  static constexpr bool value = M == 16 && N == 16 && K == 8;
};
template <int M, int N, int K> struct is_shape<replay_rt::real, M, N, K> {
  static constexpr bool value =
      is_shape<__half, M, N, K>::value || is_shape<precision::tf32, M, N, K>::value;
};

/// Elements of a lane: half operands are there twice.
template <class Use, class T, int Held> struct lane_elements { static constexpr int value = Held; };
template <int Held> struct lane_elements<matrix_a, __half, Held> { static constexpr int value = 16; };
template <int Held> struct lane_elements<matrix_b, __half, Held> { static constexpr int value = 16; };

/// The existing types of accumulators for operands of type `A`.
template <class A, class C, class D> struct is_product { static constexpr bool value = false; };
template <> struct is_product<__half, __half, __half> { static constexpr bool value = true; };
template <> struct is_product<__half, replay_rt::real, __half> { static constexpr bool value = true; };
template <> struct is_product<__half, __half, replay_rt::real> { static constexpr bool value = true; };
template <class A> struct is_product<A, replay_rt::real, replay_rt::real> {
  static constexpr bool value = true;
};
template <> struct is_product<signed char, int, int> { static constexpr bool value = true; };
template <> struct is_product<unsigned char, int, int> { static constexpr bool value = true; };
template <> struct is_product<signed char, replay_rt::real, replay_rt::real> {
  static constexpr bool value = false;
};
template <> struct is_product<unsigned char, replay_rt::real, replay_rt::real> {
  static constexpr bool value = false;
};

template <class Use, int M, int N, int K, class T, class Layout = void>
class fragment {
  using shape = extent<Use, M, N, K>;
  static_assert(is_shape<T, M, N, K>::value, "wmma: no such shape for this type of element");

 public:
  using element_type = typename element<T>::type;
  using storage_element_type = element_type;
  static constexpr int rows = shape::rows, columns = shape::columns;
  /// Elements of the matrix in a lane.
  static constexpr int held = rows * columns / 32;
  enum { num_elements = lane_elements<Use, T, held>::value, num_storage_elements = num_elements };
  element_type x[num_elements];
};

template <class Use, int M, int N, int K, class T, class Layout, class V>
inline void fill_fragment(fragment<Use, M, N, K, T, Layout>& f, const V& value) {
  for (auto& x : f.x) x = value;
}

/// Puts the matrix at `memory` into the fragment; rows or columns are `ld` elements apart.
template <class F, class E>
inline void load_elements(F& f, const E* memory, unsigned ld, bool by_rows) {
  for (int i = 0; i < F::num_elements; i++) {
    const int at = i % F::held * 32 + (int)replay_rt::lane();
    const int row = at / F::columns, column = at % F::columns;
    f.x[i] = by_rows ? memory[(size_t)row * ld + column] : memory[(size_t)column * ld + row];
  }
}
template <class Use, int M, int N, int K, class T, class E>
inline void load_matrix_sync(fragment<Use, M, N, K, T, row_major>& f, const E* memory, unsigned ld) {
  load_elements(f, memory, ld, true);
}
template <class Use, int M, int N, int K, class T, class E>
inline void load_matrix_sync(fragment<Use, M, N, K, T, col_major>& f, const E* memory, unsigned ld) {
  load_elements(f, memory, ld, false);
}
template <int M, int N, int K, class T, class E>
inline void load_matrix_sync(fragment<accumulator, M, N, K, T>& f, const E* memory, unsigned ld,
                             layout_t layout) {
  load_elements(f, memory, ld, layout == mem_row_major);
}
template <int M, int N, int K, class T, class E>
inline void store_matrix_sync(E* memory, const fragment<accumulator, M, N, K, T>& f, unsigned ld,
                              layout_t layout) {
  using F = fragment<accumulator, M, N, K, T>;
  for (int i = 0; i < F::num_elements; i++) {
    const int at = i * 32 + (int)replay_rt::lane();
    const int row = at / F::columns, column = at % F::columns;
    memory[layout == mem_row_major ? (size_t)row * ld + column : (size_t)column * ld + row] = f.x[i];
  }
}

/// An element as the product reads it.
template <class T> struct operand {
  using sum = replay_rt::real;
  template <class E> static sum of(const E& x) { return (sum)x; }
};
template <> struct operand<signed char> {
  using sum = int;
  static int of(signed char x) { return x; }
};
template <> struct operand<unsigned char> {
  using sum = int;
  static int of(unsigned char x) { return x; }
};
#ifndef REPLAY_SHADOW
template <> struct operand<precision::tf32> {
  using sum = float;
  static float of(float x) { return replay_rt::packed_tf32::at(replay_rt::bits<uint32_t>(x), 0); }
};
#endif

template <int M, int N, int K, class A, class LA, class LB, class C, class D>
inline void mma_sync(fragment<accumulator, M, N, K, D>& d, const fragment<matrix_a, M, N, K, A, LA>& a,
                     const fragment<matrix_b, M, N, K, A, LB>& b,
                     const fragment<accumulator, M, N, K, C>& c, REPLAY_SITE_PARAMS) {
  static_assert(is_product<A, C, D>::value, "wmma: no such types of accumulators for these operands");
  struct operands {
    const fragment<matrix_a, M, N, K, A, LA>* a;
    const fragment<matrix_b, M, N, K, A, LB>* b;
  };
  // The result may be one of the operands: other lanes read these first.
  fragment<accumulator, M, N, K, D> result;
  replay_rt::warp_share(operands{&a, &b}, "wmma needs all 32 threads of the warp", file, line,
                        [&](const operands* const* all) {
    for (int i = 0; i < result.num_elements; i++) {
      const int at = i * 32 + (int)replay_rt::lane(), row = at / N, column = at % N;
      auto sum = (typename operand<A>::sum)c.x[i];
      for (int k = 0; k < K; k++) {
        const int left = row * K + k, right = k * N + column;
        sum += operand<A>::of(all[left % 32]->a->x[left / 32]) *
               operand<A>::of(all[right % 32]->b->x[right / 32]);
      }
      result.x[i] = sum;
    }
  });
  d = result;
}

/// Rounds as `cvt.rna.tf32.f32` does.
inline replay_rt::real __float_to_tf32(replay_rt::real x) {
#ifdef REPLAY_SHADOW
  return x;
#else
  return replay_rt::bits<float>(replay_rt::round_to_tf32(x));
#endif
}

}  // namespace wmma
}  // namespace nvcuda
