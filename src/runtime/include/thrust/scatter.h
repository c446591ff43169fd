// Thrust: a part of it; replay/thrust.h has all that there is.
#pragma once

#include "replay/thrust.h"
