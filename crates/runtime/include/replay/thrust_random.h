// Thrust's random numbers. Thrust: "Random Number Generation". The conversions to floating point are those of its headers:
// `uniform_real_distribution`, and `normal_distribution` by the inverse of the complementary error function.
#pragma once

#include <cstdint>
#include <limits>

#include "replay/prelude.h"

namespace thrust {
namespace random {

/// x becomes a x + c modulo m.
template <class UInt, UInt a, UInt c, UInt m>
class linear_congruential_engine {
 public:
  using result_type = UInt;
  static constexpr result_type multiplier = a, increment = c, modulus = m;
  static constexpr result_type min = c == 0 ? 1 : 0, max = m - 1, default_seed = 1;

  explicit linear_congruential_engine(result_type start = default_seed) { seed(start); }
  void seed(result_type start = default_seed) {
    x_ = c % m == 0 && start % m == 0 ? (result_type)1 : (result_type)(start % m);
  }
  result_type operator()() {
    x_ = (result_type)(((uint64_t)a * x_ + c) % m);
    return x_;
  }
  /// Skips `count` numbers.
  void discard(unsigned long long count) {
    uint64_t factor = 1, sum = 0, step = a, added = c;
    for (; count > 0; count /= 2) {
      if (count % 2 == 1) {
        factor = factor * step % m;
        sum = (sum * step + added) % m;
      }
      added = (step + 1) * added % m;
      step = step * step % m;
    }
    x_ = (result_type)((factor * x_ + sum) % m);
  }
  friend bool operator==(const linear_congruential_engine& one, const linear_congruential_engine& other) {
    return one.x_ == other.x_;
  }
  friend bool operator!=(const linear_congruential_engine& one, const linear_congruential_engine& other) {
    return one.x_ != other.x_;
  }

 private:
  result_type x_;
};
using minstd_rand0 = linear_congruential_engine<uint32_t, 16807, 0, 2147483647>;
using minstd_rand = linear_congruential_engine<uint32_t, 48271, 0, 2147483647>;
using default_random_engine = minstd_rand;

/// Numbers of [a, b).
template <class Real = double>
class uniform_real_distribution {
 public:
  using result_type = Real;
  explicit uniform_real_distribution(Real a = Real(0), Real b = Real(1)) : a_(a), b_(b) {}
  void reset() {}
  template <class Engine>
  Real operator()(Engine& engine) const {
    Real drawn = (Real)(engine() - Engine::min);
    drawn /= Real(1) + (Real)(Engine::max - Engine::min);
    return drawn * (b_ - a_) + a_;
  }
  Real a() const { return a_; }
  Real b() const { return b_; }

 private:
  Real a_, b_;
};

/// Whole numbers of [a, b].
template <class Int = int>
class uniform_int_distribution {
 public:
  using result_type = Int;
  explicit uniform_int_distribution(Int a = 0, Int b = ::std::numeric_limits<Int>::max()) : a_(a), b_(b) {}
  void reset() {}
  template <class Engine>
  Int operator()(Engine& engine) const {
    return (Int)uniform_real_distribution<double>((double)a_, (double)b_ + 1.0)(engine);
  }
  Int a() const { return a_; }
  Int b() const { return b_; }

 private:
  Int a_, b_;
};

template <class Real = double>
class normal_distribution {
 public:
  using result_type = Real;
  explicit normal_distribution(Real mean = Real(0), Real stddev = Real(1)) : mean_(mean), stddev_(stddev) {}
  void reset() {}
  template <class Engine>
  Real operator()(Engine& engine) const {
    const typename Engine::result_type range = Engine::max - Engine::min;
    const Real step = (Real)(1.0 / (double)range), half = step / 2;
    // -sqrt(2); the upper half of the range is the lower one mirrored.
    Real scale = (Real)-1.4142135623730950488016887242097;
    typename Engine::result_type drawn = engine() - Engine::min;
    if (drawn > range / 2) {
      drawn = range - drawn;
      scale = -scale;
    }
    const Real p = drawn * step + half;
    return mean_ + stddev_ * scale * erfcinv(2 * p);
  }
  Real mean() const { return mean_; }
  Real stddev() const { return stddev_; }

 private:
  Real mean_, stddev_;
};

}  // namespace random
using random::default_random_engine;
using random::linear_congruential_engine;
using random::minstd_rand;
using random::minstd_rand0;
using random::normal_distribution;
using random::uniform_int_distribution;
using random::uniform_real_distribution;
}  // namespace thrust
