// The types of the runtime API, a part of cuda_runtime_api.h.
#pragma once

#include "cuda_runtime_api.h"
