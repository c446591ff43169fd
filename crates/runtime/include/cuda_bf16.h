// __nv_bfloat16 and __nv_bfloat162. CUDA Math API: "Bfloat16 Precision Intrinsics".
#pragma once

#include "replay/atomics.h"
#include "replay/memory_hints.h"
#include "replay/narrow.h"
#include "replay/warp.h"
#include "vector_functions.h"

#define REPLAY_N __nv_bfloat16
#define REPLAY_N2 __nv_bfloat162
#define REPLAY_RAW __nv_bfloat16_raw
#define REPLAY_FORMAT bfloat16_format
#define REPLAY_API(before, after) before##bfloat16##after
#define REPLAY_API2(before, after) before##bfloat162##after
#define REPLAY_HALVES __halves2bfloat162
#define REPLAY_BOTH __bfloat162bfloat162
#include "replay/narrow_api.h"

#ifdef REPLAY_SHADOW
namespace replay_rt {
template <> struct packed<__nv_bfloat16> { static constexpr pack_content value = packs_narrow; };
template <> struct packed<__nv_bfloat162> : packed<__nv_bfloat16> {};
template <> inline constexpr size_t source_bytes<__nv_bfloat16> = 2;
template <> inline constexpr size_t source_bytes<__nv_bfloat162> = 4;
}  // namespace replay_rt
#endif

using nv_bfloat16 = __nv_bfloat16;
using nv_bfloat162 = __nv_bfloat162;

#define CUDART_ZERO_BF16 __float2bfloat16(0.0f)
#define CUDART_ONE_BF16 __float2bfloat16(1.0f)
#define CUDART_INF_BF16 __float2bfloat16(__builtin_inff())
#define CUDART_NAN_BF16 __float2bfloat16(__builtin_nanf(""))
