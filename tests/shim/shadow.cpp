// The float64 shadow: what is float in CUDA is double here, and nothing rounds to less.
#define REPLAY_SHADOW
#include "fake_engine.h"

#include "cooperative_groups.h"
#include "cooperative_groups/reduce.h"
#include "cuda_bf16.h"
#include "cuda_fp16.h"
#include "math_constants.h"

static const double third = 1.0 / 3;

int main() {
  fake::start();
  volatile double x = third;
  const double grown = 1.3956124250860895;  // exp(third), computed where it is called
  check(expf(x) == grown);
  check(std::expf(x) == grown);
  check(::expf(x) == grown);
  check(__expf(x) == grown);
  check(fmaxf(x, 0.0) == third && fabsf(-x) == third && fdividef(x, 1) == third);
  check(powf(x, 3) == 2000.0 * REPLAY_POW + third + 6);
  check(rintf(x + 1) == 1.0 && lrintf(x + 2) == 2);
  check(min(x, 1.0) == third && max(0.0, x) == third);
  check(__fadd_rn(x, 0) == third && __double2float_rn(x) == third && __saturatef(x) == third);
  double sine, cosine;
  sincosf(x, &sine, &cosine);
  check(sine == 2000.0 * REPLAY_SIN + third && cosine == 2000.0 * REPLAY_COS + third);

  check(__half2float(__float2half(x)) == third);
  check(__bfloat162float(__float2bfloat16(x) * __float2bfloat16(3)) == third * 3);
  check(__low2float(__floats2half2_rn(x, 1)) == third);
  check(double(__hfma(__float2half(2), __float2half(3), __float2half(4))) == 10.5);
  check(sizeof(float4) == 32 && make_float2(x, 1).x == third);
  check(CUDART_PI_F == 3.1415926535897931);

  double sum = 1;
  atomicAdd(&sum, x);
  check(sum == 1 + third);
  __half2 pair = __floats2half2_rn(x, x);
  atomicAdd(&pair, pair);
  check(__high2float(pair) == 2 * third);
  for (auto& lane : fake::lanes) lane = bits_of(third);
  check(__shfl_xor_sync(0xffffffffu, x, 1) == third);
  auto warp = cooperative_groups::tiled_partition<2>(cooperative_groups::this_thread_block());
  check(cooperative_groups::reduce(warp, third, cooperative_groups::plus<double>()) == 2 * third);
  check(__ldg(&sum) == 1 + third);
  return finish();
}

#include "replay/print_definitions.h"
