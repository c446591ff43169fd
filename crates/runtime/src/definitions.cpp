// Definitions that every artifact holds once, compiled with the program because all artifacts share them.
#include "replay/runtime_definitions.h"
#include "replay/print_definitions.h"
#ifdef REPLAY_CHECKED
#include "replay/check_definitions.h"
#endif
