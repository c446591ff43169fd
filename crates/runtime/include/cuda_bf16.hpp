// The bodies of cuda_bf16.h.
#pragma once

#include "cuda_bf16.h"
