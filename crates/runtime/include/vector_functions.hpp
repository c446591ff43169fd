// The bodies of vector_functions.h, a part of cuda_runtime.h.
#pragma once

#include "cuda_runtime.h"
