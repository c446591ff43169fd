// The C library's functions in device code, as they behave inside a kernel: text goes to the replay's
// output of the device. A failed assertion ends the replay, of host code as well; otherwise host code
// keeps the C library's behaviour. Included once, at the end of the one translation unit, and bound
// with -Bsymbolic.
#pragma once

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "replay/math_definitions.h"
#include "replay/thread.h"

extern "C" int replay_define_printf(const char* format, ...) __asm__("printf");
extern "C" int replay_define_printf(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  if (!replay_rt::block.in_kernel) {
    int written = vprintf(format, arguments);
    va_end(arguments);
    return written;
  }
  char small[256];
  va_list again;
  va_copy(again, arguments);
  int size = vsnprintf(small, sizeof small, format, arguments);
  va_end(arguments);
  if (size >= (int)sizeof small) {
    char* large = (char*)malloc((size_t)size + 1);
    if (large) {
      vsnprintf(large, (size_t)size + 1, format, again);
      replay_rt::abi->device_print(large, (size_t)size);
      free(large);
    }
  } else if (size > 0) {
    replay_rt::abi->device_print(small, (size_t)size);
  }
  va_end(again);
  return size;
}

// <assert.h> calls this.
extern "C" [[noreturn]] void replay_define_assert(const char* expression, const char* file,
                                                  unsigned line, const char* function)
    __asm__("__assert_fail");
extern "C" [[noreturn]] void replay_define_assert(const char* expression, const char* file,
                                                  unsigned line, const char* function) {
  char text[512];
  if (replay_rt::block.in_kernel) {
    snprintf(text, sizeof text, "assertion `%s` failed in %s", expression, function);
  } else {
    snprintf(text, sizeof text, "assertion `%s` failed", expression);
  }
  if (replay_rt::abi) replay_rt::abi->device_abort(text, replay_site{file, line});
  // An initialiser of a global variable.
  fprintf(stderr, "%s:%u: %s: %s\n", file, line, function, text);
  abort();
}

// Device code's `clock` stands still, see memory_hints.h; the host's is processor time.
REPLAY_EXPORT(clock_t, clock, (void)) {
  if (replay_rt::block.in_kernel) return 0;
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return now.tv_sec * CLOCKS_PER_SEC + now.tv_nsec / (1000000000 / CLOCKS_PER_SEC);
}
