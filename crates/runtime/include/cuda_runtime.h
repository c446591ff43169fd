// CUDA's runtime header for code on the CPU reference machine.
// docs/cuda-support.md lists its contents and its gaps.
#pragma once

#include "replay/qualifiers.h"

#include "replay/math.h"

// The includes of nvcc's own header, for every file.
#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <new>
#include <utility>

#include "vector_types.h"
#include "vector_functions.h"

#include "replay/abi.h"
#include "replay/thread.h"
#include "replay/whole_block.h"
#include "replay/in_turn.h"
#include "replay/launch.h"
#include "replay/memory.h"
#include "replay/graphs.h"
#include "replay/launch_config.h"
#include "replay/pools.h"

#include "replay/fast_math.h"
#include "replay/folds.h"
#include "replay/block_turns.h"
#include "replay/warp.h"
#include "replay/atomics.h"
#include "replay/memory_hints.h"
#include "replay/number_casts.h"
#include "replay/print.h"
#include "replay/ptx.h"
#ifdef REPLAY_CHECKED
#include "replay/by_copy.h"
#endif
