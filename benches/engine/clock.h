// The time of statements, for the engine and the serial loop of benches/engine.rs.
#pragma once

#include <time.h>

inline double now_us(clockid_t clock) {
  timespec time;
  clock_gettime(clock, &time);
  return time.tv_sec * 1e6 + time.tv_nsec * 1e-3;
}

/// The shortest of `repetitions` runs of `work`, in microseconds; in `cpu_us` the least time that
/// all cores together spent on one.
template <class Work>
double best_us(int repetitions, double& cpu_us, Work work) {
  double best = 1e30;
  cpu_us = 1e30;
  for (int k = 0; k < repetitions; k++) {
    double begin = now_us(CLOCK_MONOTONIC), cpu_begin = now_us(CLOCK_PROCESS_CPUTIME_ID);
    work();
    double cpu_end = now_us(CLOCK_PROCESS_CPUTIME_ID), end = now_us(CLOCK_MONOTONIC);
    if (end - begin < best) best = end - begin;
    if (cpu_end - cpu_begin < cpu_us) cpu_us = cpu_end - cpu_begin;
  }
  return best;
}
