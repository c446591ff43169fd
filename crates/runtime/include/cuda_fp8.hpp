// The bodies of cuda_fp8.h.
#pragma once

#include "cuda_fp8.h"
