// What every unit begins with, whether its sources include it or not. It stands for itself so that it
// can be precompiled: sources that include cuda_runtime.h as well find that one, and find it read.

#include <cuda_runtime.h>
