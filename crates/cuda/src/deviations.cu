// How far elements move in calls that round otherwise, by the distance of numerics/measure.rs.
struct replay_half {
  unsigned short bits;
};
struct replay_brain {
  unsigned short bits;
};

__device__ inline double replay_wide(float x) { return x; }
__device__ inline double replay_wide(double x) { return x; }
__device__ inline double replay_wide(replay_half x) {
  float wide;
  asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(x.bits));
  return wide;
}
__device__ inline double replay_wide(replay_brain x) {
  return __uint_as_float((unsigned)x.bits << 16);
}

// Significant bits, and the exponent of the least normal number.
struct replay_format {
  int digits, least;
};
__device__ inline replay_format replay_format_of(float) { return {24, -126}; }
__device__ inline replay_format replay_format_of(double) { return {53, -1022}; }
__device__ inline replay_format replay_format_of(replay_half) { return {11, -14}; }
__device__ inline replay_format replay_format_of(replay_brain) { return {8, -126}; }

__device__ inline double replay_infinity() { return __longlong_as_double(0x7ff0000000000000ll); }

// The distance to the next number; 0 where x is not finite.
__device__ inline double replay_unit(double x, replay_format format) {
  if (!(fabs(x) < replay_infinity())) return 0.0;
  int exponent = (int)(__double_as_longlong(fabs(x)) >> 52) - 1023;
  if (exponent < format.least) exponent = format.least;
  return scalbn(1.0, exponent - (format.digits - 1));
}

__device__ inline double replay_apart(double a, double b) {
  if (a == b || (a != a && b != b)) return 0.0;
  bool finite = fabs(a) < replay_infinity() && fabs(b) < replay_infinity();
  return finite ? fabs(a - b) : replay_infinity();
}

__device__ inline void replay_store(double* to, double x) { *to = x; }
__device__ inline void replay_store(float* to, double x) {
  const double most = 3.4028234663852886e38;
  *to = (float)(x < replay_infinity() && x > most ? most : x);
}

// Raises `largest`, and lowers `least`, to how far `moved` lies from `plain`; the first call begins both.
template <class replay_T, class replay_D>
__device__ inline void replay_take(const replay_T* plain, const replay_T* moved, replay_D* largest,
                                   replay_D* least, unsigned long long count, int first) {
  unsigned long long stride = (unsigned long long)gridDim.x * blockDim.x;
  for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; i < count;
       i += stride) {
    replay_D apart;
    replay_store(&apart, replay_apart(replay_wide(plain[i]), replay_wide(moved[i])));
    if (first || apart > largest[i]) largest[i] = apart;
    if (first || apart < least[i]) least[i] = apart;
  }
}

// Makes those of `largest` negative that exceed `jump` times the least deviation and a unit. Counts the elements
// that `again` has further from `plain` than `allowed` times either.
template <class replay_T, class replay_D>
__device__ inline void replay_finish(const replay_T* plain, const replay_T* again,
                                     replay_D* largest, const replay_D* least,
                                     unsigned long long count, double jump, double allowed,
                                     unsigned long long* unsteady) {
  unsigned long long stride = (unsigned long long)gridDim.x * blockDim.x;
  for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; i < count;
       i += stride) {
    double x = replay_wide(plain[i]), far = largest[i], near = least[i];
    double unit = replay_unit(x, replay_format_of(plain[i]));
    if (far < replay_infinity() && far > jump * (near > unit ? near : unit)) {
      largest[i] = -largest[i];
    }
    if (replay_apart(x, replay_wide(again[i])) > allowed * (far > unit ? far : unit)) {
      atomicAdd(unsteady, 1ull);
    }
  }
}

#define REPLAY_DEVIATIONS(name, T, D)                                                             \
  extern "C" __global__ void replay_take_##name(const T* plain, const T* moved, D* largest,       \
                                                D* least, unsigned long long count, int first) {  \
    replay_take(plain, moved, largest, least, count, first);                                      \
  }                                                                                               \
  extern "C" __global__ void replay_finish_##name(                                                \
      const T* plain, const T* again, D* largest, const D* least, unsigned long long count,       \
      double jump, double allowed, unsigned long long* unsteady) {                                \
    replay_finish(plain, again, largest, least, count, jump, allowed, unsteady);                  \
  }
REPLAY_DEVIATIONS(f32, float, float)
REPLAY_DEVIATIONS(f64, double, double)
REPLAY_DEVIATIONS(f16, replay_half, float)
REPLAY_DEVIATIONS(bf16, replay_brain, float)
#undef REPLAY_DEVIATIONS
