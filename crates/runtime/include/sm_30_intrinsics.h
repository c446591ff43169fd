// Shuffles, and what else came with compute capability 3.0, a part of cuda_runtime.h.
#pragma once

#include "cuda_runtime.h"
