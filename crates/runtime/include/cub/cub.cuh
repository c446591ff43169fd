// CUB, as far as it is on the CPU reference machine; docs/cuda-support.md lists it.
#pragma once

#include "replay/cub_block.h"
#include "replay/cub_device.h"
#include "replay/cub_iterators.h"
#include "replay/cub_select.h"
#include "replay/cub_sort.h"
