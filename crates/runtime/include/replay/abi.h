// The table of functions of the replaying program, for compiled host and device code.
// The other side is src/abi.rs: same fields, same order, same types.
#pragma once

#include <stddef.h>
#include <stdint.h>

extern "C" {

/// Where in the user's sources a call stands. `file` is as the harness names it.
struct replay_site {
  const char* file;
  uint32_t line;
};

/// The kind of an argument.
enum replay_argument : uint8_t {
  REPLAY_ARGUMENT_VALUE = 0,      // a number, or a pointer to a function
  REPLAY_ARGUMENT_POINTER = 1,
  REPLAY_ARGUMENT_REFERENCE = 2,  // its address is the object's
  REPLAY_ARGUMENT_CLASS = 3,      // copied byte by byte
};

/// One launch: grid and block in x, y, z order, dynamic shared memory in bytes.
struct replay_launch {
  const char* kernel;             // its name, as written in the sources or spelled by the compiler
  void (*thunk)(void** args);     // runs one CUDA thread of the kernel, compiled for the host
  void** args;                    // a pointer to each argument, in order
  const size_t* arg_sizes;        // bytes of each argument
  const uint8_t* arg_kinds;       // the kind of each, see `replay_argument`; null if unknown
  uint32_t arg_count;
  uint32_t max_threads;           // a block's by __launch_bounds__, 0 without
  uint32_t cluster[3];            // blocks of a cluster by kernel or launch, 0 without
  uint32_t grid[3];
  uint32_t block[3];
  uint32_t cooperative;           // 1 if all blocks run together
  uint32_t names_cluster;         // 1 if the launch names the cluster, 2 if the kernel has another, else 0
  size_t shared_bytes;
  void* stream;
  const void* function;           // identifies the kernel for cudaFuncSetAttribute
  struct replay_site site;
};

/// The collectives of one warp. Every lane of the mask takes part or the replay ends with a report.
enum replay_warp_op : uint32_t {
  REPLAY_WARP_SYNC = 0,
  REPLAY_WARP_SHUFFLE = 1,        // result: the value of lane `argument`
  REPLAY_WARP_BALLOT = 2,         // result: a bit for each lane of the mask whose value is not 0
  REPLAY_WARP_MATCH_ANY = 3,      // result: the lanes of the mask whose value equals this lane's
  REPLAY_WARP_MATCH_ALL = 4,      // result: the mask if all values are equal, else 0
  REPLAY_WARP_REDUCE_ADD = 5,     // the reductions work on the low 32 bits
  REPLAY_WARP_REDUCE_MIN_U = 6,
  REPLAY_WARP_REDUCE_MAX_U = 7,
  REPLAY_WARP_REDUCE_MIN_S = 8,
  REPLAY_WARP_REDUCE_MAX_S = 9,
  REPLAY_WARP_REDUCE_AND = 10,
  REPLAY_WARP_REDUCE_OR = 11,
  REPLAY_WARP_REDUCE_XOR = 12,
};

/// A chain of shuffles: at each, a lane combines its value with the value it reads. Does all
/// `steps` on the values of the 32 lanes; `members` take part. A word holds the steps: from the
/// lowest bit on 6 bits for the distance of each, in bits 48 to 51 their number, and further details for `fold`.
typedef void replay_fold(uint64_t* values, uint64_t steps, uint32_t members);
enum : uint32_t { REPLAY_FOLD_DISTANCE_BITS = 6, REPLAY_FOLD_COUNT_AT = 48, REPLAY_FOLD_MOST = 8 };

/// A lane's result of a chain: its value after the `whole` chain if all lanes came with the same one,
/// else the value it reads in the first step.
struct replay_folded {
  uint64_t value;
  uint64_t whole;
};

/// How the threads of a block combine a predicate at a barrier.
enum replay_barrier_op : uint32_t {
  REPLAY_BARRIER_PLAIN = 0,
  REPLAY_BARRIER_COUNT = 1,
  REPLAY_BARRIER_AND = 2,
  REPLAY_BARRIER_OR = 3,
};

/// How an access touches memory; volatiles count as atomics.
enum replay_touch : uint32_t {
  REPLAY_READ = 0,
  REPLAY_WRITE = 1,
  REPLAY_ATOMIC_READ = 2,
  REPLAY_ATOMIC_WRITE = 3,        // also with a read
  REPLAY_BEFORE_SWAP = 4,         // no access: a compare-and-swap of the address with the bits in `site` comes next
  REPLAY_MISALIGNED_READ = 5,     // no access: what comes next reads an address that is no multiple of so many bytes
  REPLAY_MISALIGNED_WRITE = 6,    // the same of a write
};

/// One thread of a block: its `threadIdx` in x, y, z order, and its linear index.
struct replay_block_thread {
  uint32_t index[3];
  uint32_t linear;
};

/// The threads of a block, for one call of a kernel.
struct replay_block_threads {
  void* frames;                   // memory for a frame of each thread, aligned to 256 bytes
  char* scratch;                  // memory for the kernel's own use, aligned to 256 bytes
  const struct replay_block_thread* threads;  // in their running order
  uint32_t count;
  uint32_t in_order;              // whether each stands at the position of its linear index
};

/// The threads with the turn, in a kernel that runs a block in turns: `count` from `position` on, in
/// their order, one after the other; none if all threads have ended. They are of one warp.
struct replay_turn {
  uint32_t position;
  uint32_t count;
  const uint64_t* results;        // of the warp's lanes: each lane's value after its last chain
  uint32_t whole;                 // the lanes with the value of a whole chain, see `replay_folded`
  uint32_t alone;                 // whether no lane of the warp waits for others of it
};

/// The arrival of threads of one warp at a chain of shuffles, see `warp_fold`: `count` from `position` on.
struct replay_fold_wait {
  uint32_t position;
  uint32_t count;
  uint32_t mask;
  const uint64_t* values;         // of each thread
  const uint32_t* arguments;
  uint64_t steps;
  replay_fold* fold;
  struct replay_site site;
};

struct replay_abi {
  // Device side.
  uint32_t (*barrier)(uint32_t op, uint32_t predicate, struct replay_site site);
  uint64_t (*warp_collective)(uint32_t op, uint32_t mask, uint64_t value, uint32_t argument,
                              struct replay_site site);
  // A chain of shuffles, see `replay_fold_steps`: this lane passes `value`, and first reads `argument`.
  struct replay_folded (*warp_fold)(uint32_t mask, uint64_t value, uint32_t argument, uint64_t steps,
                                    replay_fold* fold, struct replay_site site);
  uint32_t (*active_mask)(void);
  void (*atomic_turn)(void);      // waits until every earlier block of the grid has ended
  void (*yield_thread)(void);     // lets the other threads of the block run
  void (*grid_barrier)(struct replay_site site);  // waits for all threads of a cooperative launch
  void (*cluster_arrive)(struct replay_site site);  // this thread has come
  void (*cluster_wait)(struct replay_site site);  // waits until all threads of the cluster have come
  uint32_t (*is_cooperative)(void);  // whether the running launch is one
  // The calling kernel runs the whole block; `frame_bytes` is the size of one thread's frame.
  void (*whole_block)(size_t frame_bytes, size_t scratch_bytes,
                      struct replay_block_threads* threads);
  // The calling kernel runs the running thread and those behind it, one after the other. A thread that lets others run
  // keeps the stack; another call of the kernel runs those behind it.
  void (*rest_of_block)(struct replay_block_threads* threads);
  // As `whole_block` for a kernel with waits for lanes of a warp: it runs the threads with the turn, and reports each wait.
  // A report covers `count` threads from `position` on. `next` receives the next turn; without it the thread behind
  // them goes on.
  void (*block_turns)(size_t frame_bytes, size_t scratch_bytes, struct replay_block_threads* threads, struct replay_turn* next);
  void (*turn_barrier)(uint32_t position, uint32_t count, struct replay_site site, struct replay_turn* next);
  void (*turn_fold)(const struct replay_fold_wait* wait, struct replay_turn* next);
  void (*turn_yield)(uint32_t position, struct replay_turn* next);
  void (*turn_end)(uint32_t position, uint32_t count, struct replay_turn* next);
  int (*is_device_memory)(const void* pointer, size_t bytes);  // whether all of it can be read
  // Threads wait at different barriers: a site for each, in their order, without a file if ended.
  __attribute__((noreturn)) void (*barriers_differ)(const struct replay_site* sites);
  void* (*check_state)(void);     // in a checked build: a `replay_rt::check_state`, or null
  // In a checked build: before an access of uncertain order; `site` is the return address in the accessing code.
  void (*access)(const volatile void* address, size_t bytes, uint32_t touch, const void* site);
  void (*fence)(void);            // in a checked build: at every memory fence
  void (*all_arrived)(void);      // in a checked build: all threads of a barrier in memory have come
  void* (*shared_alloc)(uint32_t slot, size_t bytes, size_t align, const char* name);
  uint32_t (*shared_slot)(void);  // a new slot number, unique in the process
  void (*device_print)(const char* text, size_t bytes);
  __attribute__((noreturn)) void (*device_abort)(const char* why, struct replay_site site);
  // The harness's call and the functions that it calls differ about a tensor.
  __attribute__((noreturn)) void (*call_misfit)(const char* why, struct replay_site site);
  // In a shadow: the construct `what` of the sources is about to run, and has no meaning for double.
  __attribute__((noreturn)) void (*no_shadow)(const char* what, struct replay_site site);

  // Host side; the int results are cudaError_t.
  int (*launch)(const struct replay_launch* launch);
  const char* (*name_function)(const void* function);  // its symbol, null without one
  int (*malloc)(void** pointer, size_t bytes, struct replay_site site);
  int (*malloc_host)(void** pointer, size_t bytes);
  int (*malloc_managed)(void** pointer, size_t bytes, struct replay_site site);
  int (*free)(void* pointer);
  int (*free_host)(void* pointer);
  int (*memcpy)(void* to, const void* from, size_t bytes, int kind, void* stream);
  int (*memset)(void* pointer, int value, size_t bytes, void* stream);
  int (*memcpy_symbol)(void* host_symbol, const char* name, void* other, size_t bytes,
                       size_t offset, int to_symbol, void* stream);
  int (*symbol_address)(void** pointer, void* host_symbol, const char* name, size_t bytes);
  int (*synchronize)(void* stream);
  int (*get_last_error)(int clear);
  int (*func_set_attribute)(const void* function, const char* kernel, int attribute, int value);
  int (*occupancy)(int* blocks, const void* function, int block_size, size_t shared_bytes);
  int (*multiprocessors)(void);
  int (*mem_get_info)(size_t* free_bytes, size_t* total_bytes);
  int (*device_is_host)(void);    // whether kernels run on this machine's CPU
  int (*stream_create)(void** stream, uint32_t flags);
  int (*stream_destroy)(void* stream);
  int (*event_create)(void** event);
  int (*event_destroy)(void* event);
  int (*event_record)(void* event, void* stream);
  int (*event_wait)(void* stream, void* event);
  int (*event_synchronize)(void* event);
  int (*event_elapsed)(float* milliseconds, void* start, void* end);

  // Mathematics: correctly rounded in the current rounding mode.
  float (*math_f1)(uint32_t function, float x);
  double (*math_d1)(uint32_t function, double x);
  float (*math_f2)(uint32_t function, float x, float y);
  double (*math_d2)(uint32_t function, double x, double y);
  // x * y + z, rounded once in the current rounding mode.
  float (*math_f3)(float x, float y, float z);
  double (*math_d3)(double x, double y, double z);
  // What `x` becomes where it rounds to the integer `rounded`, if `integer_rounding` is 5 or more.
  double (*round_as_recorded)(double x, double rounded);
};

/// The functions of `math_f1` and `math_d1`, by number; `math_f2` and `math_d2` have their own.
enum replay_math1 : uint32_t {
  REPLAY_ACOS, REPLAY_ACOSH, REPLAY_ASIN, REPLAY_ASINH, REPLAY_ATAN, REPLAY_ATANH, REPLAY_CBRT,
  REPLAY_COS, REPLAY_COSH, REPLAY_COSPI, REPLAY_ERF, REPLAY_ERFC, REPLAY_EXP, REPLAY_EXP10,
  REPLAY_EXP2, REPLAY_EXPM1, REPLAY_LGAMMA, REPLAY_LOG, REPLAY_LOG10, REPLAY_LOG1P, REPLAY_LOG2,
  REPLAY_RSQRT, REPLAY_SIN, REPLAY_SINH, REPLAY_SINPI, REPLAY_TAN, REPLAY_TANH, REPLAY_TGAMMA,
};
enum replay_math2 : uint32_t { REPLAY_ATAN2, REPLAY_HYPOT, REPLAY_POW };

}  // extern "C"

namespace replay_rt {
/// Set once by `replay_bind`, before any other code of the artifact runs.
extern const replay_abi* abi;

/// The rounding of this replay: 0 to nearest, 1 down, 2 up, 3 towards zero (noise replays).
/// Conversions done in software round by it; the processor's mode is set to match.
extern int rounding;

/// What functions of the sources that round to an integer do: 0 they round, 4 they pass their argument unchanged,
/// from 5 on they write or read a record.
extern int integer_rounding;

/// What such a function gives for `x`, whose integer is `rounded`. Straight-through gradients of quantisation have a slope
/// here, in the float64 shadow alone.
inline double round_to_integer(double x, double rounded) {
#ifdef REPLAY_SHADOW
  if (integer_rounding >= 5) return abi->round_as_recorded(x, rounded);
  if (integer_rounding == 4) return x;
#endif
  (void)x;
  return rounded;
}
}  // namespace replay_rt
