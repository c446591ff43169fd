// CUB: one of the algorithms over device memory.
#pragma once

#include "replay/cub_select.h"
