// The compiler's hooks in a checked build, in the place of the thread sanitizer's own library. They run before
// each access to memory visible to other threads, and instead of each atomic.
// The names and types are those of compiler-rt's tsan_interface.h and tsan_interface_atomic.h.
#pragma once

#include "replay/abi.h"
#include "replay/thread.h"

namespace replay_rt {
// These types have the layout of those in `runtime/cpu/check/packed_cells.rs` and `state.rs`; see there for more.

/// The state of an address.
struct check_cell {
  uint64_t write, read;
  uint32_t write_site, read_site, write_lanes, read_lanes;  // of several blocks: the first phase
};
struct check_slot {
  uintptr_t begin;
  size_t bytes;
  check_cell* cells;
  uint32_t shift;
  uint32_t flags;  // 1: all was written before; 2: each block has its own
};
/// The lanes' knowledge of each other in a warp.
struct check_warp {
  uint32_t tick;
  uint32_t of[32][32];  // by lane: for each other lane, the first tick unknown to it
};
struct check_state {
  uint32_t phase, block_first, launch_first, before, learned, fenced, slow;
  uintptr_t base;
  const uint32_t* ticks;
  const check_warp* warps;
  check_slot slots[4096];
};
static check_state* check;

enum check_word : uint64_t {
  CHECK_ELSEWHERE = 1,  // of a write
  CHECK_CARE = 1,       // of a read
  CHECK_ATOMIC = 2,     // of a write
  CHECK_STALE = 2,      // of a read
  CHECK_BLOCK = 1 << 2,
  CHECK_GRID = 2 << 2,
  CHECK_SCOPE = 3 << 2,
};
/// Memory so near above a frame is the stack of its thread: guards are wider, and stacks as well.
constexpr size_t CHECK_STACK = 32 << 10;
#define REPLAY_INLINE static inline __attribute__((always_inline))

/// The current moment of a thread, and its view of the past.
struct check_moment {
  uint64_t now;
  uint32_t phase, block_first, launch_first, before, floor, learned, site;
  bool written;
  const check_warp* warps;

  /// Whether two words are of one thread; both of this block.
  static bool same_thread(uint64_t a, uint64_t b) { return ((uint32_t)(a ^ b) >> 22) == 0; }
  static bool same_warp(uint64_t a, uint64_t b) { return ((uint32_t)(a ^ b) >> 27) == 0; }
  uint32_t lane() const { return 1u << ((now >> 22) & 31); }

  /// Whether this thread knows the accesses of other lanes of its warp at `word`, in this phase.
  bool knows(uint64_t word, uint32_t others) const {
    const uint32_t* of = warps[(uint32_t)now >> 27].of[(now >> 22) & 31];
    uint32_t then = (uint32_t)word << 10 >> 14;
    for (; others; others &= others - 1) {
      if (of[__builtin_ctz(others)] <= then) return false;
    }
    return true;
  }
};

/// Whether a stamp of one thread is ordered before now for certain, or is of this thread.
REPLAY_INLINE bool is_before(const check_moment& m, uint64_t word) {
  uint32_t then = (uint32_t)(word >> 32);
  if (then < m.before) return true;
  if (then < m.block_first) return false;
  if (then < m.phase || check_moment::same_thread(word, m.now)) return true;
  return check_moment::same_warp(word, m.now) && m.knows(word, 1u << ((word >> 22) & 31));
}

/// Whether all whom the stamp stands for are.
REPLAY_INLINE bool all_before(const check_moment& m, uint64_t word, uint32_t lanes) {
  uint32_t then = (uint32_t)(word >> 32);
  if (then < m.before) return true;
  if (word & CHECK_GRID || then < m.block_first) return false;
  if (then < m.phase) return true;
  return !(word & CHECK_BLOCK) && check_moment::same_warp(word, m.now) &&
         m.knows(word, lanes & ~m.lane());
}

/// `word` with the thread of `m` added, or 0 if the engine has to do it: a stamp of threads with the same kind of
/// access, without an order among them.
REPLAY_INLINE uint64_t join(const check_moment& m, uint64_t word, uint32_t* lanes) {
  uint32_t then = (uint32_t)(word >> 32);
  uint32_t own = m.lane();
  if (then < m.floor || then < m.launch_first) {
    *lanes = own;
    return m.now;
  }
  if (word & CHECK_GRID) return m.now | CHECK_GRID;
  if (then < m.block_first) {
    if (m.learned) return 0;
    *lanes = then;
    return m.now | CHECK_GRID;
  }
  if (then < m.phase) {
    *lanes = own;
    return m.now;
  }
  if (word & CHECK_BLOCK) return m.now | CHECK_BLOCK;
  if (!check_moment::same_warp(word, m.now)) return m.now | CHECK_BLOCK;
  *lanes = m.knows(word, *lanes & ~own) ? own : *lanes | own;
  return m.now;
}

/// Whether several threads have read each of the cells since it was written: one more makes no difference.
REPLAY_INLINE bool are_read_by_several(const check_state* c, const check_cell* cell,
                                       const check_cell* end) {
  constexpr uint64_t marks = CHECK_SCOPE | CHECK_CARE | CHECK_STALE;
  constexpr uint64_t phase = ~(uint64_t)0 << 32;
  uint64_t in_block = (uint64_t)c->phase << 32 | CHECK_BLOCK;
  uint64_t launch = (uint64_t)c->launch_first << 32;
  for (; cell != end; ++cell) {
    uint64_t read = cell->read;
    if (((read ^ in_block) & (phase | marks)) == 0) continue;
    if ((read & marks) != CHECK_GRID || read < launch || c->learned) return false;
  }
  return true;
}

/// A plain read; false if the engine has to look at it.
REPLAY_INLINE bool read_cell(const check_moment& m, check_cell* cell) {
  uint64_t read = cell->read;
  if (read == m.now) return true;
  uint64_t write = cell->write;
  if (write & CHECK_ELSEWHERE) return false;
  uint32_t written = (uint32_t)(write >> 32);
  if (written == 0 || written < m.floor) {
    if (!m.written) return false;
  } else if (write & CHECK_ATOMIC ? written >= m.before : !is_before(m, write)) {
    return false;
  }
  uint32_t lanes = cell->read_lanes;
  read = join(m, read & ~(uint64_t)(CHECK_CARE | CHECK_STALE), &lanes);
  if (!read) return false;
  if (read & CHECK_SCOPE && written >= m.before && written >= m.floor && written) read |= CHECK_CARE;
  cell->read = read;
  cell->read_lanes = lanes;
  cell->read_site = m.site;
  return true;
}

/// Whether a write at `m` is ordered behind the reads.
REPLAY_INLINE bool follows_reads(const check_moment& m, const check_cell* cell) {
  uint64_t read = cell->read;
  return read == 0 || (uint32_t)(read >> 32) < m.floor || read & CHECK_STALE ||
         all_before(m, read, cell->read_lanes);
}

/// A plain write.
REPLAY_INLINE bool write_cell(const check_moment& m, check_cell* cell) {
  uint64_t write = cell->write, read = cell->read;
  if (write == m.now && (read == m.now || read == 0 || read & CHECK_STALE)) return true;
  if (write & CHECK_ELSEWHERE) return false;
  uint32_t written = (uint32_t)(write >> 32);
  if (written != 0 && written >= m.floor) {
    bool before = write & CHECK_ATOMIC ? written < m.before : is_before(m, write);
    if (!before) return false;
  }
  if (!follows_reads(m, cell)) return false;
  cell->write = m.now;
  cell->write_site = m.site;
  cell->write_lanes = m.lane();
  if (read != m.now && read) cell->read = read | CHECK_STALE;
  return true;
}

/// A writing atomic.
REPLAY_INLINE bool atomic_cell(const check_moment& m, check_cell* cell) {
  uint64_t write = cell->write, read = cell->read;
  if (write & CHECK_ELSEWHERE) return false;
  uint32_t written = (uint32_t)(write >> 32);
  uint32_t lanes = cell->write_lanes;
  uint64_t next = m.now;
  if (written == 0 || written < m.floor || written < m.before) {
    lanes = m.lane();
  } else if (write & CHECK_ATOMIC) {
    next = join(m, write & ~(uint64_t)CHECK_ATOMIC, &lanes);
    if (!next) return false;
  } else {
    return false;
  }
  if (!follows_reads(m, cell)) return false;
  cell->write = next | CHECK_ATOMIC;
  cell->write_site = m.site;
  cell->write_lanes = lanes;
  if (read) cell->read = read | CHECK_STALE;
  return true;
}

/// Looks at the cells of an access; false if the engine has to. Out of line: accesses decided before this call
/// then save no registers.
template <uint32_t TOUCH>
static __attribute__((noinline)) bool are_in_order(const check_state* c, const check_slot* slot,
                                                   check_cell* cell, const check_cell* end,
                                                   const void* site) {
  uint32_t thread = block.linear_thread;
  bool shared = slot->flags & 2;
  check_moment m;
  m.phase = c->phase;
  m.block_first = c->block_first;
  m.launch_first = c->launch_first;
  m.before = shared ? c->phase : c->before;
  m.floor = shared ? c->block_first : 0;
  m.learned = c->learned;
  m.site = (uint32_t)((uintptr_t)site - c->base);
  m.written = slot->flags & 1;
  m.warps = c->warps;
  m.now = (uint64_t)m.phase << 32 | thread << 22 | c->ticks[thread] << 4;
  for (; cell != end; ++cell) {
    bool done = TOUCH == REPLAY_READ    ? read_cell(m, cell)
                : TOUCH == REPLAY_WRITE ? write_cell(m, cell)
                                        : atomic_cell(m, cell);
    if (!done) return false;
  }
  return true;
}

/// Looks at an access; false if the engine has to. `TOUCH` is not an atomic read.
template <uint32_t TOUCH>
REPLAY_INLINE bool is_in_order(const volatile void* address, size_t bytes, const void* site) {
  // A thread's own stack: all checked memory is further away.
  if ((uintptr_t)address - (uintptr_t)__builtin_frame_address(0) < CHECK_STACK) return true;
  const check_state* c = check;
  if (!c || c->slow) return false;
  const check_slot* slot = &c->slots[((uintptr_t)address >> 16) & 4095];
  size_t offset = (uintptr_t)address - slot->begin;
  if (offset >= slot->bytes || slot->bytes - offset < bytes) return false;
  if (!slot->cells) return true;
  uint32_t shift = slot->shift;
  if ((offset | bytes) & ((1u << shift) - 1)) return false;
  if (TOUCH == REPLAY_ATOMIC_WRITE && c->fenced) return false;
  check_cell* cell = slot->cells + (offset >> shift);
  check_cell* end = cell + (bytes >> shift);
  if (TOUCH == REPLAY_READ && are_read_by_several(c, cell, end)) return true;
  return are_in_order<TOUCH>(c, slot, cell, end, site);
}

/// Reports an access to the engine; `site` is the return address in the accessing code.
static __attribute__((noinline)) void ask(const volatile void* address, size_t bytes,
                                          uint32_t touch, const void* site) {
  if (!check) check = (check_state*)abi->check_state();
  abi->access(address, bytes, touch, site);
}

/// An access of host code: looked at unless it is known to be far from all device memory.
static __attribute__((noinline)) void tell_host(const volatile void* address, size_t bytes,
                                                uint32_t touch, const void* site) {
  if (!abi || (uintptr_t)address - (uintptr_t)__builtin_frame_address(0) < CHECK_STACK) return;
  if (check) {
    const check_slot* slot = &check->slots[((uintptr_t)address >> 16) & 4095];
    if (!slot->cells && (uintptr_t)address - slot->begin < slot->bytes) return;
  }
  ask(address, bytes, touch, site);
}

template <replay_touch TOUCH>
REPLAY_INLINE void tell(const volatile void* address, size_t bytes, const void* site) {
  if (!block.in_kernel) return tell_host(address, bytes, TOUCH, site);
  if (TOUCH != REPLAY_ATOMIC_READ && is_in_order<TOUCH>(address, bytes, site)) return;
  ask(address, bytes, TOUCH, site);
}

void tell_atomic(const volatile void* address, size_t bytes) {
  const void* site = __builtin_return_address(0);
  tell<REPLAY_ATOMIC_WRITE>(address, bytes, site);
}

void before_swap(const volatile void* address, size_t bytes, const void* compare) {
  uintptr_t bits = 0;
  if (bytes > sizeof bits) return;
  for (size_t i = 0; i < bytes; ++i) ((volatile char*)&bits)[i] = ((const char*)compare)[i];
  if (block.in_kernel) ask(address, bytes, REPLAY_BEFORE_SWAP, (const void*)bits);
}

/// What the compiler tells of an address that is no multiple of a type's alignment (compiler-rt, ubsan_handlers.h).
struct mismatch_data {
  const char* file;
  uint32_t line, column;
  const void* type;
  unsigned char log_alignment, kind;  // 0: a load, 1: a store; others name an object without an access
};
}  // namespace replay_rt

#define REPLAY_CALLER __builtin_return_address(0)
#define REPLAY_HOOK(name, bytes, touch)                        \
  void __tsan_##name(void* address) {                          \
    replay_rt::tell<touch>(address, bytes, REPLAY_CALLER);     \
  }
#define REPLAY_HOOKS(prefix, read, write)                      \
  REPLAY_HOOK(prefix##read1, 1, read)                          \
  REPLAY_HOOK(prefix##read2, 2, read)                          \
  REPLAY_HOOK(prefix##read4, 4, read)                          \
  REPLAY_HOOK(prefix##read8, 8, read)                          \
  REPLAY_HOOK(prefix##read16, 16, read)                        \
  REPLAY_HOOK(prefix##write1, 1, write)                        \
  REPLAY_HOOK(prefix##write2, 2, write)                        \
  REPLAY_HOOK(prefix##write4, 4, write)                        \
  REPLAY_HOOK(prefix##write8, 8, write)                        \
  REPLAY_HOOK(prefix##write16, 16, write)

// An atomic: told, then done. `order` is the strongest there is.
#define REPLAY_ATOMIC_HOOKS(bits, T)                                                              \
  T __tsan_atomic##bits##_load(const volatile T* a, int) {                                        \
    replay_rt::tell<REPLAY_ATOMIC_READ>(a, sizeof(T), REPLAY_CALLER);                             \
    return __atomic_load_n(a, __ATOMIC_SEQ_CST);                                                  \
  }                                                                                               \
  void __tsan_atomic##bits##_store(volatile T* a, T v, int) {                                     \
    replay_rt::tell<REPLAY_ATOMIC_WRITE>(a, sizeof(T), REPLAY_CALLER);                            \
    __atomic_store_n(a, v, __ATOMIC_SEQ_CST);                                                     \
  }                                                                                               \
  REPLAY_ATOMIC_RMW(bits, T, exchange, exchange_n)                                                \
  REPLAY_ATOMIC_RMW(bits, T, fetch_add, fetch_add)                                                \
  REPLAY_ATOMIC_RMW(bits, T, fetch_sub, fetch_sub)                                                \
  REPLAY_ATOMIC_RMW(bits, T, fetch_and, fetch_and)                                                \
  REPLAY_ATOMIC_RMW(bits, T, fetch_or, fetch_or)                                                  \
  REPLAY_ATOMIC_RMW(bits, T, fetch_xor, fetch_xor)                                                \
  REPLAY_ATOMIC_RMW(bits, T, fetch_nand, fetch_nand)                                              \
  REPLAY_ATOMIC_CAS(bits, T, compare_exchange_strong, false)                                      \
  REPLAY_ATOMIC_CAS(bits, T, compare_exchange_weak, true)                                         \
  T __tsan_atomic##bits##_compare_exchange_val(volatile T* a, T expected, T v, int, int) {        \
    replay_rt::before_swap(a, sizeof(T), &expected);                                              \
    replay_rt::tell<REPLAY_ATOMIC_WRITE>(a, sizeof(T), REPLAY_CALLER);                            \
    __atomic_compare_exchange_n(a, &expected, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);      \
    return expected;                                                                              \
  }
#define REPLAY_ATOMIC_RMW(bits, T, name, operation)                      \
  T __tsan_atomic##bits##_##name(volatile T* a, T v, int) {              \
    replay_rt::tell<REPLAY_ATOMIC_WRITE>(a, sizeof(T), REPLAY_CALLER);   \
    return __atomic_##operation(a, v, __ATOMIC_SEQ_CST);                 \
  }
#define REPLAY_ATOMIC_CAS(bits, T, name, weak)                                                 \
  int __tsan_atomic##bits##_##name(volatile T* a, T* expected, T v, int, int) {                \
    replay_rt::before_swap(a, sizeof(T), expected);                                            \
    replay_rt::tell<REPLAY_ATOMIC_WRITE>(a, sizeof(T), REPLAY_CALLER);                         \
    return __atomic_compare_exchange_n(a, expected, v, weak, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
  }

extern "C" {
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_read(void**) {}
void __tsan_vptr_update(void**, void*) {}
REPLAY_HOOKS(, REPLAY_READ, REPLAY_WRITE)
REPLAY_HOOKS(unaligned_, REPLAY_READ, REPLAY_WRITE)
REPLAY_HOOKS(volatile_, REPLAY_ATOMIC_READ, REPLAY_ATOMIC_WRITE)
REPLAY_HOOKS(unaligned_volatile_, REPLAY_ATOMIC_READ, REPLAY_ATOMIC_WRITE)
void __tsan_read_range(void* address, size_t bytes) {
  replay_rt::tell<REPLAY_READ>(address, bytes, REPLAY_CALLER);
}
void __tsan_write_range(void* address, size_t bytes) {
  replay_rt::tell<REPLAY_WRITE>(address, bytes, REPLAY_CALLER);
}
REPLAY_ATOMIC_HOOKS(8, uint8_t)
REPLAY_ATOMIC_HOOKS(16, uint16_t)
REPLAY_ATOMIC_HOOKS(32, uint32_t)
REPLAY_ATOMIC_HOOKS(64, uint64_t)
void __ubsan_handle_type_mismatch_v1(const replay_rt::mismatch_data* data, const void* address) {
  if (!replay_rt::block.in_kernel || data->kind > 1) return;
  // A device may place the variables of a thread otherwise.
  if ((uintptr_t)address - (uintptr_t)__builtin_frame_address(0) < replay_rt::CHECK_STACK) return;
  const uint32_t touch = data->kind == 0 ? REPLAY_MISALIGNED_READ : REPLAY_MISALIGNED_WRITE;
  replay_rt::ask(address, size_t{1} << data->log_alignment, touch, REPLAY_CALLER);
}
// clang++ tells of a pointer that is assumed to be aligned, too: that is no access.
void __ubsan_handle_alignment_assumption(void*, const void*, const void*, const void*) {}
void __tsan_atomic_thread_fence(int) {
  if (replay_rt::block.in_kernel) replay_rt::abi->fence();
}
void __tsan_atomic_signal_fence(int) {}
// Of the C library, as device code calls them; the compiler tells of none of their accesses.
void* memcpy(void* __restrict__ to, const void* __restrict__ from, size_t bytes) {
  replay_rt::tell<REPLAY_READ>(from, bytes, REPLAY_CALLER);
  replay_rt::tell<REPLAY_WRITE>(to, bytes, REPLAY_CALLER);
  for (size_t i = 0; i < bytes; ++i) ((volatile char*)to)[i] = ((const char*)from)[i];
  return to;
}
void* memset(void* to, int value, size_t bytes) {
  replay_rt::tell<REPLAY_WRITE>(to, bytes, REPLAY_CALLER);
  for (size_t i = 0; i < bytes; ++i) ((volatile char*)to)[i] = (char)value;
  return to;
}
}
