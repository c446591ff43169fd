// Shared by the variants of embedding: compensated sums.
#pragma once

#include <cuda_runtime.h>
#include <math.h>
#include <stdlib.h>

// Adds value to *sum, and next time what rounding lost of it (Kahan summation).
static __device__ void kahan_add(float value, float* sum, float* lost)
{
    float corrected = value - *lost;
    float next = *sum + corrected;
    *lost = (next - *sum) - corrected;
    *sum = next;
}
