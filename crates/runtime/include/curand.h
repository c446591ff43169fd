// cuRAND's host API: the generators Philox4x32-10 and XORWOW, in cuRAND's order of their
// numbers. cuRAND: "Host API Overview".
//
// Philox: block i of 4 numbers is block i / 65536 of subsequence i % 65536. XORWOW: 4096 subsequences take
// turns, each with one number, or with a pair of normal ones.
#pragma once

#include "curand_kernel.h"
#include "replay/memory.h"

enum curandStatus {
  CURAND_STATUS_SUCCESS = 0,
  CURAND_STATUS_VERSION_MISMATCH = 100,
  CURAND_STATUS_NOT_INITIALIZED = 101,
  CURAND_STATUS_ALLOCATION_FAILED = 102,
  CURAND_STATUS_TYPE_ERROR = 103,
  CURAND_STATUS_OUT_OF_RANGE = 104,
  CURAND_STATUS_LENGTH_NOT_MULTIPLE = 105,
  CURAND_STATUS_LAUNCH_FAILURE = 201,
  CURAND_STATUS_INTERNAL_ERROR = 999,
};
typedef curandStatus curandStatus_t;
enum curandRngType {
  CURAND_RNG_PSEUDO_DEFAULT = 100,
  CURAND_RNG_PSEUDO_XORWOW = 101,
  CURAND_RNG_PSEUDO_MRG32K3A = 121,
  CURAND_RNG_PSEUDO_MTGP32 = 141,
  CURAND_RNG_PSEUDO_MT19937 = 142,
  CURAND_RNG_PSEUDO_PHILOX4_32_10 = 161,
  CURAND_RNG_QUASI_DEFAULT = 200,
};
typedef curandRngType curandRngType_t;
enum curandOrdering {
  CURAND_ORDERING_PSEUDO_BEST = 100,
  CURAND_ORDERING_PSEUDO_DEFAULT = 101,
  CURAND_ORDERING_PSEUDO_SEEDED = 102,
  CURAND_ORDERING_PSEUDO_LEGACY = 103,
  CURAND_ORDERING_PSEUDO_DYNAMIC = 104,
};
typedef curandOrdering curandOrdering_t;

struct curandGenerator_st {
  bool philox;
  uint64_t number;
  unsigned long long seed = 0, offset = 0;
  cudaStream_t stream = nullptr;
  // XORWOW: the state of each of its 4096 subsequences, on the device, and whose turn it is.
  curandStateXORWOW_t* states = nullptr;
  bool ready = false;
  unsigned turn = 0;
  bool has_normals = false;  // since the offset was set
  bool sets_seed = true, sets_offset = false;  // since NVIDIA's library generated numbers
};
typedef curandGenerator_st* curandGenerator_t;

namespace replay_rt {

[[noreturn]] inline void not_in_curand(const char* why, const char* file, uint32_t line) {
  abi->device_abort(why, replay_site{file, line});
  __builtin_unreachable();
}

/// The state in front of number `index` of a generator.
inline void curand_at(curandStatePhilox4_32_10_t* state, unsigned long long seed,
                      unsigned long long index) {
  const unsigned long long block = index / 4;
  curand_init(seed, block % 65536, block / 65536 * 4 + index % 4, state);
}
/// The distribution of the numbers.
enum curand_kind { curand_bits, curand_uniforms, curand_normals };

struct curand_request {
  unsigned long long seed, offset, count;
  curand_kind kind;
  double mean, deviation;
};
template <class T>
inline void curand_put(const curand_request& r, T* out, unsigned x, unsigned y) {
  if (r.kind == curand_bits) {
    out[0] = (T)x;
  } else if (r.kind == curand_uniforms) {
    out[0] = (T)random_uniform(x);
  } else {
    real first, second;
    random_normals(x, y, first, second);
    out[0] = (T)(r.mean + (T)r.deviation * first);
    out[1] = (T)(r.mean + (T)r.deviation * second);
  }
}
template <class T>
void curand_philox_kernel(curand_request r, T* out) {
  const unsigned step = r.kind == curand_normals ? 2 : 1;
  curandStatePhilox4_32_10_t state;
  for (unsigned long long i = 0; i < r.count; i += step) {
    if (i == 0 || (r.offset + i) % 4 == 0) curand_at(&state, r.seed, r.offset + i);
    const unsigned x = curand(&state);
    curand_put(r, out + i, x, step == 2 ? curand(&state) : 0);
  }
}
/// A thread for each of the 4096 subsequences.
inline void curand_xorwow_start(curandStateXORWOW_t* states, unsigned long long seed,
                                unsigned long long offset) {
  const unsigned sequence = threadIdx.x + blockIdx.x * blockDim.x;
  curandStateXORWOW_t state;
  curand_init(seed, sequence, (offset + 4095 - sequence) / 4096, &state);
  states[sequence] = state;
}
template <class T>
void curand_xorwow_kernel(curand_request r, curandStateXORWOW_t* states, unsigned turn, T* out) {
  const unsigned thread = threadIdx.x + blockIdx.x * blockDim.x;
  const unsigned step = r.kind == curand_normals ? 2 : 1;
  curandStateXORWOW_t state = states[(turn + thread) % 4096];
  for (unsigned long long i = (unsigned long long)thread * step; i < r.count; i += 4096ull * step) {
    const unsigned x = curand(&state);
    curand_put(r, out + i, x, step == 2 ? curand(&state) : 0);
  }
  states[(turn + thread) % 4096] = state;
}
template <class T>
inline void curand_run_xorwow(curandGenerator_t generator, const curand_request& request, T* out,
                              const char* name, const char* file, uint32_t line) {
  const dim3 grid(16), block(256);
  if (generator->states == nullptr)
    cudaMalloc(&generator->states, 4096 * sizeof(curandStateXORWOW_t), file, line);
  if (!generator->ready) {
    library_kernel(&curand_xorwow_start, name, file, line)
        .on(grid, block, 0, generator->stream)
        .run(generator->states, generator->seed, generator->offset);
    generator->ready = true;
    generator->turn = (unsigned)(generator->offset % 4096);
  }
  library_kernel(&curand_xorwow_kernel<T>, name, file, line)
      .on(grid, block, 0, generator->stream)
      .run(request, generator->states, generator->turn, out);
  const unsigned long long turns = request.kind == curand_normals ? request.count / 2 : request.count;
  generator->turn = (unsigned)((generator->turn + turns) % 4096);
}
/// A call for NVIDIA's library, as src/gpu/random.rs reads it.
struct curand_call {
  int32_t* status;
  uint64_t generator, seed, offset, count;
  void* out;
  int32_t kind;
  float mean, deviation;
  bool sets_seed, sets_offset;
};
inline int32_t curand_status = 0;
template <class T>
inline curandStatus_t curand_by_library(curandGenerator_t generator, const curand_request& request,
                                        T* out, const char* name, const char* file, uint32_t line) {
  if (sizeof(T) != 4) not_in_curand("cuRAND's host functions in float64 are not supported on a GPU", file, line);
  curand_status = CURAND_STATUS_SUCCESS;
  curand_call call = {&curand_status, generator->number, request.seed, request.offset, request.count, out,
                      generator->philox ? CURAND_RNG_PSEUDO_PHILOX4_32_10 : CURAND_RNG_PSEUDO_XORWOW,
                      (float)request.mean, (float)request.deviation, generator->sets_seed,
                      generator->sets_offset};
  generator->sets_seed = generator->sets_offset = false;
  void* arguments[2] = {&call, nullptr};
  const size_t sizes[1] = {sizeof call};
  replay_launch launch = {};
  launch.kernel = name;
  launch.thunk = [](void**) {};
  launch.site = replay_site{file, line};
  launch.args = arguments;
  launch.arg_sizes = sizes;
  launch.arg_count = 1;
  for (int i = 0; i < 3; i++) launch.grid[i] = launch.block[i] = 1;
  launch.stream = generator->stream;
  submit(launch);
  return (curandStatus_t)curand_status;
}
template <class T>
inline curandStatus_t curand_run(curandGenerator_t generator, T* out, size_t count,
                                 curand_kind kind, double mean, double deviation, const char* name,
                                 const char* file, uint32_t line) {
  if (generator == nullptr) return CURAND_STATUS_NOT_INITIALIZED;
  const bool pairs = kind == curand_normals;
  if (pairs && !generator->philox && count % 2 != 0) return CURAND_STATUS_LENGTH_NOT_MULTIPLE;
  if (pairs && generator->philox && (count % 2 != 0 || generator->offset % 2 != 0))
    not_in_curand("an odd number of values of a Philox generator before or in curandGenerateNormal is not supported", file, line);
  const curand_request request = {generator->seed, generator->offset, count, kind, mean, deviation};
  if (pairs) generator->has_normals = true;
  if (count == 0) return CURAND_STATUS_SUCCESS;
  if (!abi->device_is_host()) {
    const curandStatus_t status = curand_by_library(generator, request, out, name, file, line);
    return generator->offset += count, status;
  }
  if (generator->philox)
    library_kernel(&curand_philox_kernel<T>, name, file, line)
        .on(dim3(1), dim3(1), 0, generator->stream)
        .run(request, out);
  else
    curand_run_xorwow(generator, request, out, name, file, line);
  generator->offset += count;
  return CURAND_STATUS_SUCCESS;
}
}  // namespace replay_rt

inline curandStatus_t curandCreateGenerator(curandGenerator_t* generator, curandRngType_t type,
                                            REPLAY_SITE_PARAMS) {
  const bool philox = type == CURAND_RNG_PSEUDO_PHILOX4_32_10;
  if (!philox && type != CURAND_RNG_PSEUDO_DEFAULT && type != CURAND_RNG_PSEUDO_XORWOW)
    replay_rt::not_in_curand("cuRAND generators other than XORWOW and Philox are not supported", file, line);
  static uint64_t generators = 0;
  *generator = new curandGenerator_st{philox, ++generators};
  return CURAND_STATUS_SUCCESS;
}
inline curandStatus_t curandDestroyGenerator(curandGenerator_t generator) {
  if (generator == nullptr) return CURAND_STATUS_NOT_INITIALIZED;
  cudaFree(generator->states);
  return delete generator, CURAND_STATUS_SUCCESS;
}
inline curandStatus_t curandSetPseudoRandomGeneratorSeed(curandGenerator_t generator,
                                                         unsigned long long seed,
                                                         REPLAY_SITE_PARAMS) {
  if (generator == nullptr) return CURAND_STATUS_NOT_INITIALIZED;
  if (!generator->philox && generator->has_normals)
    replay_rt::not_in_curand("a new seed of XORWOW behind curandGenerateNormal is not supported without a new offset before it", file, line);
  // The place in the sequence stays.
  generator->seed = seed;
  generator->ready = false;
  generator->sets_seed = true;
  return CURAND_STATUS_SUCCESS;
}
inline curandStatus_t curandSetGeneratorOffset(curandGenerator_t generator,
                                               unsigned long long offset) {
  if (generator == nullptr) return CURAND_STATUS_NOT_INITIALIZED;
  generator->offset = offset;
  generator->ready = generator->has_normals = false;
  generator->sets_offset = true;
  return CURAND_STATUS_SUCCESS;
}
inline curandStatus_t curandSetStream(curandGenerator_t generator, cudaStream_t stream) {
  if (generator == nullptr) return CURAND_STATUS_NOT_INITIALIZED;
  return generator->stream = stream, CURAND_STATUS_SUCCESS;
}
inline curandStatus_t curandSetGeneratorOrdering(curandGenerator_t generator,
                                                 curandOrdering_t ordering, REPLAY_SITE_PARAMS) {
  if (generator == nullptr) return CURAND_STATUS_NOT_INITIALIZED;
  if (ordering != CURAND_ORDERING_PSEUDO_DEFAULT && ordering != CURAND_ORDERING_PSEUDO_LEGACY)
    replay_rt::not_in_curand("cuRAND orderings other than default and legacy are not supported", file, line);
  return CURAND_STATUS_SUCCESS;
}
inline curandStatus_t curandGenerate(curandGenerator_t generator, unsigned int* out, size_t count,
                                     REPLAY_SITE_PARAMS) {
  return replay_rt::curand_run(generator, out, count, replay_rt::curand_bits, 0, 1,
                               "curandGenerate", file, line);
}
inline curandStatus_t curandGenerateUniform(curandGenerator_t generator, replay_rt::real* out,
                                            size_t count, REPLAY_SITE_PARAMS) {
  return replay_rt::curand_run(generator, out, count, replay_rt::curand_uniforms, 0, 1,
                               "curandGenerateUniform", file, line);
}
inline curandStatus_t curandGenerateNormal(curandGenerator_t generator, replay_rt::real* out,
                                           size_t count, replay_rt::real mean,
                                           replay_rt::real deviation, REPLAY_SITE_PARAMS) {
  return replay_rt::curand_run(generator, out, count, replay_rt::curand_normals, mean, deviation,
                               "curandGenerateNormal", file, line);
}
