// cg::memcpy_async as a plain copy by the threads of the group. CUDA C++ Programming Guide:
// "memcpy_async", "wait". Complete after `wait`, as the guide demands of its users.
#pragma once

#include "cooperative_groups.h"

namespace cooperative_groups {

/// Copies `bytes` bytes; rank r of n copies the bytes r, r + n, r + 2n, ...
template <class Group, class T>
inline void memcpy_async(const Group& group, T* to, const T* from, size_t bytes) {
  char* target = reinterpret_cast<char*>(to);
  const char* source = reinterpret_cast<const char*>(from);
  for (size_t i = group.thread_rank(); i < bytes; i += group.size()) target[i] = source[i];
}
template <class Group>
inline void wait(const Group& group, REPLAY_SITE_PARAMS) {
  group.sync(file, line);
}
/// Copies are done at once, so all but the last `Count` of them are done as well.
template <unsigned Count, class Group>
inline void wait_prior(const Group& group, REPLAY_SITE_PARAMS) {
  group.sync(file, line);
}

}  // namespace cooperative_groups
