// Atomic functions of blocks, of the system and of doubles, a part of cuda_runtime.h.
#pragma once

#include "cuda_runtime.h"
