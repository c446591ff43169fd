// CUTLASS's own header, with macros that other compilers than nvcc can read: nvcc takes a directive
// that a macro expands to. Only a tree with CUTLASS includes it.
#pragma once

#include_next <cutlass/detail/helper_macros.hpp>

#undef CUTLASS_PRAGMA_UNROLL
#undef CUTLASS_PRAGMA_NO_UNROLL
#define CUTLASS_PRAGMA_UNROLL
#define CUTLASS_PRAGMA_NO_UNROLL
