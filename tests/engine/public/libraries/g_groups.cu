// Groups of lanes by a label, copies that are waited for one by one, and several 8-bit numbers at once.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cuda_fp8.h>

__global__ void label_lanes(const float* x, float* out) {
  namespace cg = cooperative_groups;
  cg::thread_block block = cg::this_thread_block();
  cg::thread_block_tile<32> tile = cg::tiled_partition<32>(block);
  __shared__ float staged[2][64];
  cg::memcpy_async(block, staged[0], x, sizeof(staged[0]));
  cg::memcpy_async(block, staged[1], x + 64, sizeof(staged[1]));
  cg::wait_prior<1>(block);
  const float first = staged[0][63 - threadIdx.x];
  cg::wait(block);
  cg::coalesced_group third = cg::labeled_partition(tile, (int)tile.thread_rank() % 3);
  cg::coalesced_group odd = cg::binary_partition(tile, tile.thread_rank() % 2 == 1);
  float* own = out + threadIdx.x * 4;
  own[0] = first + staged[1][threadIdx.x];
  own[1] = (float)(third.size() * 100 + third.thread_rank());
  own[2] = cg::reduce(odd, (float)tile.thread_rank(), cg::plus<float>());
  const float four = (float)(threadIdx.x % 4);
  const __nv_fp8x2_e4m3 two_numbers(make_float2(four, 0.5f));
  const __nv_fp8x4_e5m2 four_numbers(make_float4(four, 2.f, -four, 0.25f));
  const float2 pair = (float2)two_numbers;
  const float4 quad = (float4)four_numbers;
  own[3] = pair.x * 1000.f + pair.y * 100.f + quad.x * 10.f + quad.y + quad.z + quad.w;
}
void run_groups(const float* x, float* out) { label_lanes<<<1, 64>>>(x, out); }
