// `printf` and `assert` in device code. CUDA C++ Programming Guide: "Formatted Output",
// "Assertion".
#pragma once

// As in the C library's headers; nvcc declares it without them too.
extern "C" int printf(const char* format, ...);
