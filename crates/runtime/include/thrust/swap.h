// Thrust's swap.
#pragma once

#include "replay/thrust_algorithms.h"
