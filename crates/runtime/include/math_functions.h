// CUDA's old name of its mathematical functions, a part of cuda_runtime.h.
#pragma once

#include "cuda_runtime.h"
