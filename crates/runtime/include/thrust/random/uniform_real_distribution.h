// Thrust: a part of it; replay/thrust.h has all of it.
#pragma once

#include "replay/thrust.h"
