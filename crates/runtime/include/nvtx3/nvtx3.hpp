// NVTX's C++ interface: marks and ranges without effect. NVTX C++ API Reference.
#pragma once

#include "nvtx3/nvToolsExt.h"

#define NVTX3_FUNC_RANGE()
#define NVTX3_FUNC_RANGE_IN(...)

namespace nvtx3 {
struct event_attributes {
  template <class... A> explicit event_attributes(const A&...) {}
};
struct rgb { unsigned char red, green, blue; };
struct scoped_range {
  template <class... A> explicit scoped_range(const A&...) {}
  ~scoped_range() {}
};
using thread_range = scoped_range;
struct unique_range {
  template <class... A> explicit unique_range(const A&...) {}
  ~unique_range() {}
};
template <class... A> void mark(const A&...) {}
}  // namespace nvtx3
