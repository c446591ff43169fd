// Writes elements as float64, each moved by a step, with the bits of tensor/step.rs.
struct replay_step {
  unsigned long long seed, begin, end, columns, ranges;
  double length;
  int moved, wanted, own;
};

__device__ inline double replay_power_of_two(double x) {
  double power = __longlong_as_double(__double_as_longlong(x) & 0x7ff0000000000000ll);
  return power > 0.0 ? power : 2.2250738585072014e-308;
}

__device__ inline double replay_sign(unsigned long long seed, unsigned long long index) {
  unsigned long long x = seed + index * 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return ((x ^ (x >> 31)) >> 63) == 0 ? 1.0 : -1.0;
}

// Whether one of the ranges, in order and apart, holds the index.
__device__ inline bool replay_left_out(const unsigned long long* without, unsigned long long ranges,
                                       unsigned long long index) {
  unsigned long long low = 0, high = ranges;
  while (low < high) {
    unsigned long long middle = (low + high) / 2;
    if (without[2 * middle + 1] <= index) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low < ranges && without[2 * low] <= index;
}

__device__ inline double replay_distance(double x, unsigned long long index, const replay_step& step,
                                         const double* rows, const unsigned long long* without) {
  double size = fabs(x);
  if (!step.moved || !(size < __longlong_as_double(0x7ff0000000000000ll)) || index < step.begin ||
      index >= step.end || replay_left_out(without, step.ranges, index)) {
    return 0.0;
  }
  double row = rows[index / step.columns];
  int found = x == 0.0 ? 1 : size > __dmul_rn(64.0, row) ? 2 : 0;
  if (found != step.wanted) return 0.0;
  double own = replay_power_of_two(size);
  double scale = x == 0.0 ? row : step.own ? own : own > row ? own : row;
  return __dmul_rn(step.length, __dmul_rn(scale, replay_sign(step.seed, index)));
}

template <class replay_T>
__device__ inline void replay_widen(const replay_T* from, double* to, unsigned long long count,
                                    const replay_step& step, const double* rows,
                                    const unsigned long long* without) {
  unsigned long long stride = (unsigned long long)gridDim.x * blockDim.x;
  for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; i < count;
       i += stride) {
    double x = from[i];
    to[i] = __dadd_rn(x, replay_distance(x, i, step, rows, without));
  }
}

extern "C" __global__ void replay_widen_f32(const float* from, double* to, unsigned long long count,
                                            replay_step step, const double* rows,
                                            const unsigned long long* without) {
  replay_widen(from, to, count, step, rows, without);
}

extern "C" __global__ void replay_widen_f64(const double* from, double* to, unsigned long long count,
                                            replay_step step, const double* rows,
                                            const unsigned long long* without) {
  replay_widen(from, to, count, step, rows, without);
}
