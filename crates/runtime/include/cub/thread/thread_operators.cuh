// CUB's operators, a part of cub/cub.cuh.
#pragma once

#include "cub/cub.cuh"
