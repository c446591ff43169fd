// CuTe's own header, with macros that other compilers than nvcc can read, as
// cutlass/detail/helper_macros.hpp. Only a tree with CuTe includes it.
#pragma once

#include_next <cute/config.hpp>

#undef CUTE_UNROLL
#undef CUTE_NO_UNROLL
#define CUTE_UNROLL
#define CUTE_NO_UNROLL
