// The built-in variables of device code, for sources that include them by CUDA's name.
#pragma once

#include "replay/thread.h"
