// The words of CUDA for functions and variables, a part of cuda_runtime.h.
#pragma once

#include "cuda_runtime.h"
