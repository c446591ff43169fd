// Atomic functions that came with compute capability 2.0, a part of cuda_runtime.h.
#pragma once

#include "cuda_runtime.h"
