// What every artifact holds once. Compiled with the program, as it is the same for all of them.
#include "replay/runtime_definitions.h"
#include "replay/print_definitions.h"
#ifdef REPLAY_CHECKED
#include "replay/check_definitions.h"
#endif
