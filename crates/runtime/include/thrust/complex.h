// Thrust's complex numbers.
#pragma once

#include "replay/complex.h"

namespace thrust {
using namespace ::replay_complex;
}  // namespace thrust
