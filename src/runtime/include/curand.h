// cuRAND's host API: the generators Philox4x32-10 and XORWOW, in the order in which cuRAND stores their
// numbers. cuRAND: "Host API Overview".
//
// Philox: block i of 4 numbers is block i / 65536 of subsequence i % 65536. XORWOW: number i is number
// i / 4096 of subsequence i % 4096; normal numbers come in pairs in the same manner.
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
  unsigned long long seed = 0, offset = 0;
  bool unsure = false;  // where the sequence goes on
  cudaStream_t stream = nullptr;
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
/// What each number becomes.
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
/// A thread for each subsequence: 4096 of them.
template <class T>
void curand_xorwow_kernel(curand_request r, T* out) {
  const unsigned long long thread = threadIdx.x + blockIdx.x * blockDim.x;
  const unsigned long long first = r.offset + thread;
  const unsigned step = r.kind == curand_normals ? 2 : 1;
  if (thread * step >= r.count) return;
  curandStateXORWOW_t state;
  curand_init(r.seed, first % 4096, first / 4096, &state);
  for (unsigned long long i = thread * step; i < r.count; i += 4096ull * step) {
    const unsigned x = curand(&state);
    curand_put(r, out + i, x, step == 2 ? curand(&state) : 0);
  }
}
template <class T>
inline curandStatus_t curand_run(curandGenerator_t generator, T* out, size_t count,
                                 curand_kind kind, double mean, double deviation, const char* name,
                                 const char* file, uint32_t line) {
  if (generator == nullptr) return CURAND_STATUS_NOT_INITIALIZED;
  const bool pairs = kind == curand_normals;
  if (pairs && count % 2 != 0) return CURAND_STATUS_LENGTH_NOT_MULTIPLE;
  if (pairs && generator->offset % 4 != 0)
    not_in_curand("curandGenerateNormal behind a number of values that is no multiple of 4 is not supported", file, line);
  if (generator->unsure)
    not_in_curand("a generator of cuRAND goes on behind curandGenerateNormal: set its offset first", file, line);
  generator->unsure = pairs;
  const curand_request request = {generator->seed, generator->offset, count, kind, mean, deviation};
  generator->offset += count;
  if (count == 0) return CURAND_STATUS_SUCCESS;
  if (generator->philox)
    kernel_at(&curand_philox_kernel<T>, name, file, line)
        .on(dim3(1), dim3(1), 0, generator->stream)
        .run(request, out);
  else
    kernel_at(&curand_xorwow_kernel<T>, name, file, line)
        .on(dim3(16), dim3(256), 0, generator->stream)
        .run(request, out);
  return CURAND_STATUS_SUCCESS;
}
}  // namespace replay_rt

inline curandStatus_t curandCreateGenerator(curandGenerator_t* generator, curandRngType_t type,
                                            REPLAY_SITE_PARAMS) {
  const bool philox = type == CURAND_RNG_PSEUDO_PHILOX4_32_10;
  if (!philox && type != CURAND_RNG_PSEUDO_DEFAULT && type != CURAND_RNG_PSEUDO_XORWOW)
    replay_rt::not_in_curand("cuRAND generators other than XORWOW and Philox are not supported", file, line);
  *generator = new curandGenerator_st{philox};
  return CURAND_STATUS_SUCCESS;
}
inline curandStatus_t curandDestroyGenerator(curandGenerator_t generator) {
  if (generator == nullptr) return CURAND_STATUS_NOT_INITIALIZED;
  return delete generator, CURAND_STATUS_SUCCESS;
}
inline curandStatus_t curandSetPseudoRandomGeneratorSeed(curandGenerator_t generator,
                                                         unsigned long long seed) {
  if (generator == nullptr) return CURAND_STATUS_NOT_INITIALIZED;
  // The place in the sequence stays.
  return generator->seed = seed, CURAND_STATUS_SUCCESS;
}
inline curandStatus_t curandSetGeneratorOffset(curandGenerator_t generator,
                                               unsigned long long offset) {
  if (generator == nullptr) return CURAND_STATUS_NOT_INITIALIZED;
  generator->offset = offset;
  generator->unsure = false;
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
