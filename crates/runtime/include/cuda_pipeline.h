// The primitives of asynchronous copies. CUDA C++ Programming Guide: "Pipeline Primitives Interface".
#pragma once

#include "cuda/pipeline"

/// Of `bytes` the last `zeros` become 0.
inline void __pipeline_memcpy_async(void* to, const void* from, size_t bytes, size_t zeros = 0,
                                    REPLAY_SITE_PARAMS) {
  replay_ptx::ptx_cp_async(static_cast<char*>(to), static_cast<const char*>(from),
                           (long long)bytes, (long long)(bytes - zeros), file, line);
}
inline void __pipeline_commit() {}
inline void __pipeline_wait_prior(size_t) {}
