// cg::inclusive_scan and cg::exclusive_scan over tiles and coalesced groups, in the order of
// ranks. CUDA C++ Programming Guide: "Inclusive Scan", "Exclusive Scan".
#pragma once

#include "cooperative_groups/reduce.h"

namespace cooperative_groups {

template <class Group, class T, class Operation>
inline T inclusive_scan(const Group& group, T value, Operation&& operation, REPLAY_SITE_PARAMS) {
  for (unsigned distance = 1; distance < group.size(); distance *= 2) {
    T before = group.shfl_up(value, distance, file, line);
    if (group.thread_rank() >= distance) value = operation(before, value);
  }
  return value;
}
template <class Group, class T>
inline T inclusive_scan(const Group& group, T value) {
  return inclusive_scan(group, value, plus<T>());
}

/// Rank 0 gets a value-initialised T, as with CUDA's default operation.
template <class Group, class T, class Operation>
inline T exclusive_scan(const Group& group, T value, Operation&& operation, REPLAY_SITE_PARAMS) {
  T before = group.shfl_up(inclusive_scan(group, value, operation, file, line), 1, file, line);
  return group.thread_rank() == 0 ? T() : before;
}
template <class Group, class T>
inline T exclusive_scan(const Group& group, T value) {
  return exclusive_scan(group, value, plus<T>());
}

}  // namespace cooperative_groups
