// __half and __half2. CUDA Math API: "Half Precision Intrinsics".
#pragma once

#include "replay/atomics.h"
#include "replay/memory_hints.h"
#include "replay/narrow.h"
#include "replay/warp.h"
#include "vector_functions.h"

#define REPLAY_N __half
#define REPLAY_N2 __half2
#define REPLAY_RAW __half_raw
#define REPLAY_FORMAT half_format
#define REPLAY_API(before, after) before##half##after
#define REPLAY_API2(before, after) before##half2##after
#define REPLAY_HALVES __halves2half2
#define REPLAY_BOTH __half2half2
#include "replay/narrow_api.h"

#ifdef REPLAY_SHADOW
namespace replay_rt {
template <> struct packed<__half> { static constexpr pack_content value = packs_narrow; };
template <> struct packed<__half2> : packed<__half> {};
template <> inline constexpr size_t source_bytes<__half> = 2;
template <> inline constexpr size_t source_bytes<__half2> = 4;
}  // namespace replay_rt
#endif

using half = __half;
using half2 = __half2;
using nv_half = __half;
using nv_half2 = __half2;

#define CUDART_ZERO_FP16 __float2half(0.0f)
#define CUDART_ONE_FP16 __float2half(1.0f)
#define CUDART_MAX_NORMAL_FP16 __float2half(65504.0f)
#define CUDART_INF_FP16 __float2half(__builtin_inff())
#define CUDART_NAN_FP16 __float2half(__builtin_nanf(""))
