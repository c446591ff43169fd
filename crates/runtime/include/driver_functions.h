// CUDA's makers of pitched pointers and extents, a part of cuda_runtime.h.
#pragma once

#include "cuda_runtime.h"
