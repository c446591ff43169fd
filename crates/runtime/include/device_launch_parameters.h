// The built-in variables of device code, by CUDA's name of the header.
#pragma once

#include "replay/thread.h"
