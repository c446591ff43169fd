// Dot products of bytes, which came with compute capability 6.1, a part of cuda_runtime.h.
#pragma once

#include "cuda_runtime.h"
