// The scopes and orders of libcu++. All scopes are one on the reference machine.
#pragma once

#include <atomic>

#include "replay/atomics.h"
#include "replay/cuda_std.h"

namespace cuda {
enum thread_scope { thread_scope_system, thread_scope_device, thread_scope_block, thread_scope_thread };
using ::std::memory_order;
using ::std::memory_order_acq_rel;
using ::std::memory_order_acquire;
using ::std::memory_order_relaxed;
using ::std::memory_order_release;
using ::std::memory_order_seq_cst;

inline void atomic_thread_fence(memory_order, thread_scope = thread_scope_system) { __threadfence(); }
}  // namespace cuda
