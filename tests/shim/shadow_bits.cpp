// Bits of numbers in the float64 shadow: they are those of the float, and the number comes along where they are moved.
#define REPLAY_SHADOW
#include "fake_engine.h"

#include <string.h>

#include "replay/number_casts.h"

static int ended = 0;
namespace replay_rt {
void no_shadow(const char*, const char*, uint32_t) { ended++; }
}  // namespace replay_rt

template <class To>
static replay_rt::bits_cast<To> cast() {
  return replay_rt::bits_cast<To>("a cast", "a.cu", 1);
}

static void maximum(double* address, double value) {
  if (value >= 0)
    atomicMax(cast<int*>()(address), __float_as_int(value));
  else
    atomicMin(cast<unsigned*>()(address), __float_as_uint(value));
}

static double minimum(double* address, double value) {
  auto words = cast<int*>()(address);
  replay_rt::bits_word<int> old = *words, assumed;
  do {
    assumed = old;
    old = atomicCAS(words, assumed, __float_as_int(fmin(value, __int_as_float(assumed))));
  } while (assumed != old);
  return __int_as_float(old);
}

union shared_word {
  double number;
  replay_rt::bits_member<uint32_t> word;
};

int main() {
  fake::start();
  fake::table.math_d2 = [](uint32_t, double x, double y) { return x < y ? x : y; };
  const double third = 1.0 / 3;
  const uint32_t rounded = bits_of((float)third);

  double sum = 0;
  maximum(&sum, third);
  maximum(&sum, 0.25);
  check(sum == third);
  maximum(&sum, third * (1 + 1e-12));
  check(sum > third);
  sum = 5;
  check(minimum(&sum, third) == 5 && sum == third);
  minimum(&sum, 2);
  check(sum == third);
  check(__int_as_float(__float_as_int(third)) == third);
  for (auto& lane : fake::lanes) lane = bits_of(third);
  check(__int_as_float(__shfl_xor_sync(0xffffffffu, __float_as_int(third), 1)) == third);
  check(ended == 0 && !replay_rt::has_noted_rounded_bits());

  // Numbers that are floats: arithmetic on their bits is that of the sources.
  double half = 0.5;
  int word = *cast<int*>()(&half);
  word += 1 << 23;
  check(*cast<double*>()(&word) == 1 && cast<double&>()(word) * 2 == 2);
  check(__int_as_float(word) == 1 && ended == 0);

  uint64_t key = 5ull << 32;
  key |= *cast<const uint32_t*>()(&third);
  check((uint32_t)key == rounded);
  shared_word both;
  both.number = third;
  check(both.word * 3u == rounded * 3u);
  uint32_t copied = 0;
  memcpy(&copied, &third, sizeof third);
  check(copied == rounded && cast<const unsigned&>()(third) == rounded);

  // Bits of a number that is no float do not tell it any more.
  check(replay_rt::has_noted_rounded_bits() && ended == 0);
  check(__uint_as_float(copied) == (float)third && ended == 1);

  // Integers stay as they are; other looks into numbers end the replay.
  int integers[2] = {1, 2};
  cast<int&>()(integers[1]) = 9;
  check(cast<unsigned*>()(integers)[1] == 9 && ended == 1);
  cast<uint2*>()(&sum);
  check(ended == 2);
  cast<long long*>()(&sum);
  check(ended == 3);
  const int* kept = cast<const int*>()(&third);
  check(kept != nullptr && ended == 4);
  check(cast<double*>()(&sum) == &sum && ended == 4);
  return finish();
}

#include "replay/print_definitions.h"
