// CUB's functions of lanes and warps, a part of cub/cub.cuh.
#pragma once

#include "cub/cub.cuh"
