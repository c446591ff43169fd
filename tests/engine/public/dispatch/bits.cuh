#pragma once
#include <cuda_runtime.h>

#define SIGN_OF(x) (__float_as_uint(x) >> 31)
#define BITS_OF(x) (*(const unsigned*)&(x))

struct Magnitude {
    float value;
    __device__ float get() const {
        unsigned bits = *reinterpret_cast<const unsigned*>(&value) & 0x7fffffff;
        return __uint_as_float(bits);
    }
};
