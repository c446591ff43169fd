// CUB: pairs of a key and a value.
#pragma once

#include "replay/cub_operators.h"
