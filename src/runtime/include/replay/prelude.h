// The start of every unit, whether or not its sources include it. It is a file of its own so that it
// can be precompiled: sources that include cuda_runtime.h as well find it already read.

#include <cuda_runtime.h>
