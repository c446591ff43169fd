// Warps, cooperative groups, atomics, memory hints, printf and assert, one thread at a time: the
// other lanes of the warp are what the fake engine plays back.
#include <assert.h>

#include "fake_engine.h"

#include "cooperative_groups.h"
#include "cooperative_groups/memcpy_async.h"
#include "cooperative_groups/reduce.h"
#include "cuda/std/limits"
#include "cuda_bf16.h"
#include "cuda_fp16.h"

namespace cg = cooperative_groups;

/// Every lane passes its own number, and `lane` is the one whose view is tested.
static void become(uint32_t lane) {
  for (uint32_t i = 0; i < 32; i++) fake::lanes[i] = i;
  replay_rt::block.linear_thread = lane;
}

// CUDA C++ Programming Guide, "Warp Shuffle Functions".
static void shuffles_read_the_lane_that_the_guide_names() {
  const unsigned all = 0xffffffffu;
  become(5);
  check(__shfl_sync(all, 5ll, 9) == 9);
  become(5);
  check(__shfl_sync(all, 5ll, 33) == 1);  // modulo width
  become(13);
  check(__shfl_sync(all, 13ll, 2, 8) == 10);  // within the segment 8..15
  become(13);
  check(__shfl_sync(all, 13ll, 10, 8) == 10);
  become(13);
  check(__shfl_up_sync(all, 13ll, 4) == 9);
  become(3);
  check(__shfl_up_sync(all, 3ll, 4) == 3);  // unchanged
  become(9);
  check(__shfl_up_sync(all, 9ll, 2, 8) == 9);  // not across the segment
  become(30);
  check(__shfl_down_sync(all, 30ll, 1) == 31);
  become(30);
  check(__shfl_down_sync(all, 30ll, 2) == 30);
  become(6);
  check(__shfl_down_sync(all, 6ll, 2, 8) == 6);
  become(6);
  check(__shfl_xor_sync(all, 6ll, 3) == 5);
  become(9);
  check(__shfl_xor_sync(all, 9ll, 8, 8) == 1);  // an earlier segment can be read
  become(1);
  check(__shfl_xor_sync(all, 1ll, 8, 8) == 1);  // a later one cannot
  become(0);
  fake::lanes[7] = bits_of(2.5f);
  check(__shfl_sync(all, 1.0f, 7) == 2.5f);
  become(0);
  fake::lanes[7] = 0x4000;
  check(__half2float(__shfl_sync(all, __float2half(1.0f), 7)) == 2.0f);
}

static void votes_and_matches_look_at_the_lanes_of_the_mask() {
  become(0);
  check(__ballot_sync(0xfu, 0) == 0xeu);
  become(0);
  check(__any_sync(0x1u, 0) == 0 && __any_sync(0x3u, 0) == 1);
  become(0);
  for (auto& lane : fake::lanes) lane = 0;  // all() asks who disagrees
  check(__all_sync(0xffffffffu, 7) == 1 && __all_sync(0xffffffffu, 0) == 0);
  become(4);
  fake::lanes[6] = 4;
  check(__match_any_sync(0xffffffffu, 4) == 0x50u);
  int same;
  check(__match_all_sync(0x50u, 4, &same) == 0x50u && same == 1);
  check(__match_all_sync(0x70u, 4, &same) == 0 && same == 0);
  become(1);
  check(__reduce_add_sync(0xffffffffu, 1u) == 496u);
}

static void tiles_know_their_threads() {
  blockDim = dim3(48);
  become(13);
  cg::thread_block block = cg::this_thread_block();
  check(block.size() == 48 && block.thread_rank() == 13);
  cg::thread_block_tile<8> tile = cg::tiled_partition<8>(block);
  check(tile.size() == 8 && tile.thread_rank() == 5);
  check(tile.meta_group_rank() == 1 && tile.meta_group_size() == 6);
  check(tile.shfl(13ll, 2) == 10 && fake::last_mask == 0xff00u);
  become(13);
  check(tile.shfl_xor(13ll, 1) == 12);
  become(13);
  check(tile.shfl_down(13ll, 3) == 13 && tile.shfl_up(13ll, 5) == 8);
  become(13);
  check(tile.ballot(1) == 0xffu);
  auto pair = cg::tiled_partition<2>(tile);
  check(pair.thread_rank() == 1 && pair.meta_group_rank() == 2);
  auto dynamic = cg::tiled_partition(block, 4);
  check(dynamic.size() == 4 && dynamic.thread_rank() == 1 && dynamic.meta_group_rank() == 3);
  replay_rt::block.linear_thread = 40;  // the second warp has 16 threads
  auto last = cg::tiled_partition<32>(block);
  last.sync();
  check(fake::last_mask == 0xffffu && last.meta_group_rank() == 1 && last.thread_rank() == 8);
  become(3);
  cg::coalesced_group active(0x8au);  // lanes 1, 3, 7
  check(active.size() == 3 && active.thread_rank() == 1 && active.shfl(3ll, 2) == 7);
  become(3);
  check(active.ballot(1) == 7u);
  become(0);
  auto warp = cg::tiled_partition<32>(block);
  for (auto& lane : fake::lanes) lane = 1;  // each step doubles what lane 0 holds, plus 1s
  check(cg::reduce(warp, 1, cg::plus<int>()) == 6);
  check(cg::reduce(cg::tiled_partition<1>(block), 9, cg::plus<int>()) == 9);
}

static void atomics_return_what_was_there_and_take_their_turn() {
  int i = 5;
  replay_rt::block.in_kernel = 1;
  fake::turns = 0;
  check(atomicAdd(&i, 3) == 5 && i == 8 && fake::turns == 1);
  replay_rt::block.has_turn = 1;
  check(atomicSub(&i, 9) == 8 && i == -1 && fake::turns == 1);
  check(atomicMin(&i, -4) == -1 && i == -4 && atomicMax(&i, 7) == -4 && i == 7);
  check(atomicExch(&i, 1) == 7 && atomicCAS(&i, 1, 2) == 1 && i == 2);
  check(atomicCAS(&i, 1, 3) == 2 && i == 2);
  check(atomicAnd(&i, 6) == 2 && atomicOr(&i, 5) == 2 && i == 7 && atomicXor(&i, 2) == 7 && i == 5);
  unsigned u = 3;
  check(atomicInc(&u, 3) == 3 && u == 0 && atomicInc(&u, 3) == 0 && u == 1);
  check(atomicDec(&u, 3) == 1 && u == 0 && atomicDec(&u, 3) == 0 && u == 3);
  u = 9;
  check(atomicDec(&u, 3) == 9 && u == 3);
  check(atomicMin(&u, 0xffffffffu) == 3 && u == 3);
  unsigned long long wide = 1;
  check(atomicAdd(&wide, 1ull << 40) == 1 && wide == (1ull << 40) + 1);
  float f = 1.0f;
  check(atomicAdd(&f, 0.5f) == 1.0f && f == 1.5f && atomicAdd_system(&f, 1.0f) == 1.5f);
  double d = 1.0;
  check(atomicAdd_block(&d, 0.5) == 1.0 && d == 1.5);
  float4 v = make_float4(1, 2, 3, 4);
  check(atomicAdd(&v, make_float4(1, 1, 1, 1)).w == 4 && v.x == 2 && v.w == 5);
  __nv_bfloat16 b = __float2bfloat16(256.0f);
  atomicAdd(&b, __float2bfloat16(1.0f));
  check(__bfloat162float(b) == 256.0f);  // 8 bits: the one is lost
  __half2 h = __floats2half2_rn(1.0f, 2.0f);
  atomicAdd(&h, h);
  check(__low2float(h) == 2.0f && __high2float(h) == 4.0f);
  unsigned short s = 7;
  check(atomicCAS(&s, (unsigned short)7, (unsigned short)9) == 7 && s == 9);
  __threadfence();
}

static void vectors_have_cudas_sizes_and_alignments() {
  check(sizeof(float3) == 12 && alignof(float3) == 4 && sizeof(float4) == 16 && alignof(float4) == 16);
  check(alignof(float2) == 8 && alignof(double2) == 16 && alignof(double4) == 16);
  check(sizeof(uchar4) == 4 && alignof(uchar4) == 4 && alignof(short4) == 8 && sizeof(longlong4) == 32);
  check(sizeof(__half2) == 4 && alignof(__half2) == 4 && alignof(__nv_bfloat162) == 4);
  dim3 grid(2, 3);
  check(grid.x == 2 && grid.y == 3 && grid.z == 1);
  float4 from[2] = {make_float4(1, 2, 3, 4), make_float4(5, 6, 7, 8)}, to;
  __stcs(&to, __ldcs(&from[1]));
  check(to.x == 5 && to.w == 8 && __ldg(&from[0].y) == 2);
  check(cuda::std::numeric_limits<float>::max() > 3e38f);
}

static void device_printf_goes_to_the_engine() {
  replay_rt::block.in_kernel = 1;
  char long_text[600];
  memset(long_text, 'x', sizeof long_text);
  long_text[599] = 0;
  check(printf("block %d: %.2f\n", 3, 0.5) == 14);
  check(strcmp(fake::printed, "block 3: 0.50\n") == 0);
  printf("%s", long_text);
  check(strlen(fake::printed) == 14 + 599);
}

int main() {
  fake::start();
  shuffles_read_the_lane_that_the_guide_names();
  votes_and_matches_look_at_the_lanes_of_the_mask();
  tiles_know_their_threads();
  atomics_return_what_was_there_and_take_their_turn();
  vectors_have_cudas_sizes_and_alignments();
  device_printf_goes_to_the_engine();
  finish();
  replay_rt::block.in_kernel = 1;
  assert(failures > 1000);  // ends in the engine, which gives the result of the checks
  return 1;
}

#include "replay/print_definitions.h"
