// Steps with reads of the other lanes' values in a warp: products of small matrices, and the
// loads and stores of their parts. PTX ISA: "Matrix multiply-accumulate instructions", "ldmatrix",
// "stmatrix".
//
// An element of a product is the accumulator's old value plus each product in the order of k. Products
// of 16-bit numbers and of tf32 are exact in float32; each sum is rounded once.
#pragma once

#include "replay/narrow.h"
#include "replay/warp.h"

namespace replay_rt {

/// Calls `use(all)`; `all[lane]` is the lane's `mine`. It orders no
/// accesses to memory, as shuffles do not.
template <class T, class Use>
inline void warp_share(const T& mine, const char* what, const char* file, uint32_t line, Use use) {
  constexpr uint32_t all_lanes = 0xffffffffu;
  if (abi->active_mask() != all_lanes) abi->device_abort(what, replay_site{file, line});
  const T* own[32];
  const T** all = reinterpret_cast<const T**>(warp_collective(
      REPLAY_WARP_SHUFFLE, all_lanes, reinterpret_cast<uint64_t>(own), 0, file, line));
  all[lane()] = &mine;
  warp_collective(REPLAY_WARP_BALLOT, all_lanes, 0, 0, file, line);
  use(all);
  warp_collective(REPLAY_WARP_BALLOT, all_lanes, 0, 0, file, line);
}

/// The numbers in a register of 32 bits.
struct packed_half {
  static constexpr int count = 2;
  using number = float;
  static float at(uint32_t word, int i) { return widen(half_format(), (uint16_t)(word >> 16 * i)); }
};
struct packed_bfloat16 {
  static constexpr int count = 2;
  using number = float;
  static float at(uint32_t word, int i) {
    return widen(bfloat16_format(), (uint16_t)(word >> 16 * i));
  }
};
/// The 13 lowest bits of the register do not count.
struct packed_tf32 {
  static constexpr int count = 1;
  using number = float;
  static float at(uint32_t word, int) { return bits<float>(word & 0xffffe000u); }
};
/// To the nearest number of 10 bits behind the point, ties away from zero, in every replay. PTX ISA:
/// "cvt", `.rna`.
inline uint32_t round_to_tf32(float x) {
  const uint32_t b = bits<uint32_t>(x);
  if (x != x) return 0x7fffffffu;
  if ((b & 0x7f800000u) == 0x7f800000u) return b;
  return (b + 0x1000u) & 0xffffe000u;
}
struct packed_s8 {
  static constexpr int count = 4;
  using number = int32_t;
  static int32_t at(uint32_t word, int i) { return (int8_t)(word >> 8 * i); }
};
struct packed_u8 {
  static constexpr int count = 4;
  using number = int32_t;
  static int32_t at(uint32_t word, int i) { return (uint8_t)(word >> 8 * i); }
};

inline float multiply_add(float sum, float a, float b) { return sum + a * b; }
inline int32_t multiply_add(int32_t sum, int32_t a, int32_t b) {
  return (int32_t)((uint32_t)sum + (uint32_t)a * (uint32_t)b);
}

/// `mma.sync` of 16 x K by K x 8. Lane l holds of A the rows l / 4 and l / 4 + 8, of B the column l / 4,
/// and of the result the columns 2 (l % 4) and the next one, in both rows.
template <int K, class PackA, class PackB, class Acc>
inline void mma_16x8(Acc (&result)[4], const uint32_t* a, const uint32_t* b, const Acc (&c)[4],
                     const char* file, uint32_t line) {
  constexpr int per_lane = PackA::count, per_step = 4 * per_lane, steps = K / per_step;
  struct operands {
    uint32_t a[2 * steps], b[steps];
  } mine;
  for (int i = 0; i < 2 * steps; i++) mine.a[i] = a[i];
  for (int i = 0; i < steps; i++) mine.b[i] = b[i];
  warp_share(mine, "mma.sync needs all 32 threads of the warp", file, line,
             [&](const operands* const* all) {
    const int row = (int)lane() / 4, column = (int)lane() % 4 * 2;
    for (int e = 0; e < 4; e++) {
      Acc sum = c[e];
      for (int k = 0; k < K; k++) {
        const int from = k % per_step / per_lane, step = k / per_step, at = k % per_lane;
        const uint32_t left = all[row * 4 + from]->a[e / 2 + 2 * step];
        const uint32_t right = all[(column + e % 2) * 4 + from]->b[step];
        sum = multiply_add(sum, PackA::at(left, at), PackB::at(right, at));
      }
      result[e] = sum;
    }
  });
}

/// The place in shared memory with this address in its window.
inline char* in_shared(uint64_t address, const char* file, uint32_t line) {
  char* place = block.shared_begin + address;
  if (place < block.shared_begin || place >= block.shared_end)
    abi->device_abort("an address beyond shared memory is used", replay_site{file, line});
  return place;
}

/// `ldmatrix` of `Count` matrices of 8 x 8: lane l holds elements 2 (l % 4) and the next one of row
/// l / 4, transposed of the column. The rows' addresses come from the first 8 * Count lanes.
template <int Count, bool Transposed>
inline void load_matrices(uint32_t (&result)[Count], const char* row, const char* file,
                          uint32_t line) {
  if (lane() < 8 * Count && reinterpret_cast<uintptr_t>(row) % 16 != 0)
    abi->device_abort("ldmatrix of a row whose address is no multiple of 16", {file, line});
  warp_share(row, "ldmatrix needs all 32 threads of the warp", file, line,
             [&](const char* const* const* all) {
    const int major = (int)lane() / 4, minor = (int)lane() % 4 * 2;
    for (int i = 0; i < Count; i++) {
      uint16_t pair[2];
      for (int half = 0; half < 2; half++) {
        const int from = Transposed ? minor + half : major, at = Transposed ? major : minor + half;
        pair[half] = reinterpret_cast<const uint16_t*>(*all[8 * i + from])[at];
      }
      result[i] = pair[0] | (uint32_t)pair[1] << 16;
    }
  });
}
template <int Count, bool Transposed>
inline void store_matrices(const uint32_t (&values)[Count], char* row, const char* file,
                           uint32_t line) {
  if (lane() < 8 * Count && reinterpret_cast<uintptr_t>(row) % 16 != 0)
    abi->device_abort("stmatrix of a row whose address is no multiple of 16", {file, line});
  warp_share(row, "stmatrix needs all 32 threads of the warp", file, line,
             [&](char* const* const* all) {
    const int major = (int)lane() / 4, minor = (int)lane() % 4 * 2;
    for (int i = 0; i < Count; i++) {
      for (int half = 0; half < 2; half++) {
        const int to = Transposed ? minor + half : major, at = Transposed ? major : minor + half;
        reinterpret_cast<uint16_t*>(*all[8 * i + to])[at] = (uint16_t)(values[i] >> 16 * half);
      }
    }
  });
}

}  // namespace replay_rt

// The window of shared memory begins at address 0. CUDA C++ Programming Guide: "Address Space
// Conversion Functions".
inline size_t __cvta_generic_to_shared(const void* pointer, REPLAY_SITE_PARAMS) {
  const char* place = static_cast<const char*>(pointer);
  if (place < replay_rt::block.shared_begin || place > replay_rt::block.shared_end)
    replay_rt::abi->device_abort("__cvta_generic_to_shared of what is not in shared memory",
                                 replay_site{file, line});
  return (size_t)(place - replay_rt::block.shared_begin);
}
inline void* __cvta_shared_to_generic(size_t address) {
  return replay_rt::block.shared_begin + address;
}
inline size_t __cvta_generic_to_global(const void* pointer) {
  return reinterpret_cast<size_t>(pointer);
}
inline void* __cvta_global_to_generic(size_t address) { return reinterpret_cast<void*>(address); }
