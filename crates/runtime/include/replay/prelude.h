// The start of every unit, whether or not its sources include it. As a file of its own it can be
// precompiled: a later include of cuda_runtime.h finds it already read.

#include <cuda_runtime.h>
