// CUB: one of the collectives of blocks and warps.
#pragma once

#include "replay/cub_sort.h"
