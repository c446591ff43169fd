// CUB: one of the iterators over items that are computed.
#pragma once

#include "replay/cub_iterators.h"
