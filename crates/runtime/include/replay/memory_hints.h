// Loads and stores with cache hints, address-space queries, time and traps: plain memory accesses
// and constants on the reference machine.
// CUDA C++ Programming Guide: "Read-Only Data Cache Load Function", "Load Functions Using Cache
// Hints", "Store Functions Using Cache Hints", "Time Function", "Nanosleep Function", "Trap
// function", "Breakpoint Function", "Address Space Predicate Functions".
#pragma once

#include "replay/packs.h"
#include "replay/thread.h"

#define REPLAY_LOAD(T)                                          \
  inline T __ldg(const T* address) { return *address; }         \
  inline T __ldcg(const T* address) { return *address; }        \
  inline T __ldca(const T* address) { return *address; }        \
  inline T __ldcs(const T* address) { return *address; }        \
  inline T __ldlu(const T* address) { return *address; }        \
  inline T __ldcv(const T* address) { return *address; }
#define REPLAY_STORE(T)                                         \
  inline void __stwb(T* address, T value) { *address = value; } \
  inline void __stcg(T* address, T value) { *address = value; } \
  inline void __stcs(T* address, T value) { *address = value; } \
  inline void __stwt(T* address, T value) { *address = value; }
/// Every hint for one type; cuda_fp16.h and cuda_bf16.h use it for theirs.
#define REPLAY_CACHE_HINTS(T) REPLAY_LOAD(T) REPLAY_STORE(T)
REPLAY_CACHE_HINTS(char)
REPLAY_CACHE_HINTS(signed char)
REPLAY_CACHE_HINTS(unsigned char)
REPLAY_CACHE_HINTS(short)
REPLAY_CACHE_HINTS(unsigned short)
REPLAY_CACHE_HINTS(int)
REPLAY_CACHE_HINTS(unsigned)
REPLAY_CACHE_HINTS(long)
REPLAY_CACHE_HINTS(unsigned long)
REPLAY_CACHE_HINTS(long long)
REPLAY_CACHE_HINTS(unsigned long long)
REPLAY_CACHE_HINTS(char2)
REPLAY_CACHE_HINTS(char4)
REPLAY_CACHE_HINTS(uchar2)
REPLAY_CACHE_HINTS(uchar4)
REPLAY_CACHE_HINTS(short2)
REPLAY_CACHE_HINTS(short4)
REPLAY_CACHE_HINTS(ushort2)
REPLAY_CACHE_HINTS(ushort4)
REPLAY_CACHE_HINTS(int2)
REPLAY_CACHE_HINTS(int4)
REPLAY_CACHE_HINTS(uint2)
REPLAY_CACHE_HINTS(uint4)
REPLAY_CACHE_HINTS(longlong2)
REPLAY_CACHE_HINTS(ulonglong2)
REPLAY_CACHE_HINTS(float2)
REPLAY_CACHE_HINTS(float4)
REPLAY_CACHE_HINTS(double)
REPLAY_CACHE_HINTS(double2)
#ifdef REPLAY_SHADOW
REPLAY_CACHE_HINTS(replay_rt::pack_int4)
REPLAY_CACHE_HINTS(replay_rt::pack_uint4)
REPLAY_CACHE_HINTS(replay_rt::pack_longlong2)
REPLAY_CACHE_HINTS(replay_rt::pack_ulonglong2)
#else
REPLAY_CACHE_HINTS(float)
#endif

#ifdef REPLAY_SHADOW
// Through a cast of integers to a pack of them.
#define REPLAY_LOAD_PACK(NAME)                                        \
  template <class Pack>                                               \
  auto NAME(const replay_rt::integers_as_packs<Pack>& address) { return *address; }
REPLAY_LOAD_PACK(__ldg) REPLAY_LOAD_PACK(__ldcg) REPLAY_LOAD_PACK(__ldca)
REPLAY_LOAD_PACK(__ldcs) REPLAY_LOAD_PACK(__ldlu) REPLAY_LOAD_PACK(__ldcv)
#undef REPLAY_LOAD_PACK
#endif

inline void __prefetch_global_l1(const void*) {}
inline void __prefetch_global_l2(const void*) {}

/// Shared memory has one address space with everything else here; the block knows its range.
inline unsigned __isShared(const void* pointer) {
  const char* byte = static_cast<const char*>(pointer);
  return byte >= replay_rt::block.shared_begin && byte < replay_rt::block.shared_end;
}
inline unsigned __isGlobal(const void* pointer) { return !__isShared(pointer); }

[[noreturn]] inline void __trap(REPLAY_SITE_PARAMS) {
  replay_rt::abi->device_abort("__trap() was called", replay_site{file, line});
}
inline void __brkpt() {}
inline void __nanosleep(unsigned) { replay_rt::may_be_waiting(256); }

/// Cycle counters stand still: a result that depends on time would not be reproducible.
inline long long clock64() { return 0; }
