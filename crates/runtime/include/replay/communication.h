// Functions for communication with other processes or devices: a replay has none.
#pragma once

#include "abi.h"

namespace replay_rt {

[[noreturn]] inline void no_communication(const char* what) {
  abi->device_abort(what, replay_site{nullptr, 0});
  __builtin_unreachable();
}
}  // namespace replay_rt

#define REPLAY_COMMUNICATES(type, name)                                                    \
  template <class... Arguments>                                                            \
  inline type name(Arguments&&...) {                                                       \
    ::replay_rt::no_communication(#name " is not supported: a replay has one process and " \
                                        "one device");                                     \
  }
