// CUDA's old name of the intrinsics of doubles, a part of cuda_runtime.h.
#pragma once

#include "cuda_runtime.h"
