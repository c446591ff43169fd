// CUDA's old name of what host and device have in common, a part of cuda_runtime.h.
#pragma once

#include "cuda_runtime.h"
