// Shared memory seen as another type: each kernel doubles 64 numbers.
#include <cub/block/block_scan.cuh>
#include <cuda_fp16.h>
#include <stdint.h>

struct Pair {
  float first[64];
  float second[64];
};

// A wide load that no call of the tests reaches, and assertions that hold natively alone.
void copy(void* to, const void* from) { *(int4*)to = *reinterpret_cast<const int4*>(from); }
template <class T>
struct Narrow {
  static_assert(sizeof(T) == 2, "two bytes");
  T number;
};
static_assert(sizeof(Pair) == 512 && sizeof(float) == 4 && sizeof(half) == 2, "as natively");
static_assert(sizeof(Narrow<half>) <= 2, "two bytes");

extern __shared__ char pool[];
#define VIEW(T, memory) reinterpret_cast<T&>(memory)
#define POOL (*reinterpret_cast<Pair*>(pool))

__device__ void twice(Pair& pair, float* out, const float* in) {
  int t = threadIdx.x;
  pair.first[t] = in[t];
  pair.second[63 - t] = in[t];
  __syncthreads();
  out[t] = pair.first[t] + pair.second[63 - t];
}

__global__ void by_reference(float* out, const float* in) {
  extern __shared__ char smem[];
  Pair& pair = (Pair&)smem;
  twice(pair, out, in);
}
__global__ void by_cast_reference(float* out, const float* in) {
  extern __shared__ __align__(16) unsigned char smem[];
  auto& pair = reinterpret_cast<Pair&>(smem);
  twice(pair, out, in);
}
__global__ void by_pointer(float* out, const float* in) {
  extern __shared__ char smem[];
  Pair* pair = (Pair*)smem;
  twice(*pair, out, in);
}
__global__ void by_address(float* out, const float* in) {
  extern __shared__ char smem[];
  twice(*(Pair*)&smem, out, in);
}
__global__ void by_address_of_element(float* out, const float* in) {
  extern __shared__ float smem[];
  twice(*reinterpret_cast<Pair*>(&smem[0]), out, in);
}
template <class T>
__global__ void by_constant(float* out, const float* in) {
  extern __shared__ T smem[];
  twice(VIEW(Pair, smem), out, in);
  __syncthreads();
  const Pair& pair = reinterpret_cast<const Pair&>(smem);
  out[threadIdx.x] = 2 * pair.first[threadIdx.x];
}
__global__ void by_array(float* out, const float* in) {
  extern __shared__ char smem[];
  float(&numbers)[64] = reinterpret_cast<float(&)[64]>(smem);
  float(*more)[64] = (float(*)[64])smem;
  numbers[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = 2 * more[0][threadIdx.x];
}
__global__ void by_scan(float* out, const float* in) {
  typedef cub::BlockScan<float, 64> Scan;
  extern __shared__ char smem[];
  typename Scan::TempStorage& storage = reinterpret_cast<typename Scan::TempStorage&>(smem);
  float with, without;
  Scan(storage).InclusiveSum(in[threadIdx.x], with);
  __syncthreads();
  Scan(storage).ExclusiveSum(in[threadIdx.x], without);
  out[threadIdx.x] = 2 * (with - without);
}
__global__ void of_global_reference(float* out, const float* in) {
  Pair& pair = (Pair&)pool;
  twice(pair, out, in);
}
__global__ void of_global_cast(float* out, const float* in) {
  twice(reinterpret_cast<Pair&>(pool), out, in);
  __syncthreads();
  const Pair& pair = reinterpret_cast<const Pair&>(pool);
  out[threadIdx.x] = 2 * pair.first[threadIdx.x];
}
__global__ void of_global_address(float* out, const float* in) { twice(*(Pair*)&pool, out, in); }
__global__ void of_global_macro(float* out, const float* in) { twice(POOL, out, in); }
__global__ void of_local_name(float* out, const float* in) {
  Pair pool;
  pool.first[0] = in[threadIdx.x];
  Pair* pointer = (Pair*)&pool;
  out[threadIdx.x] = 2 * (*pointer).first[0];
}
__global__ void in_lambda(float* out, const float* in) {
  __shared__ float tile[64];
  auto tile_at = [=](int i) { return tile[i]; };
  tile[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = 2 * tile_at(threadIdx.x);
}
__global__ void in_lambda_dynamic(float* out, const float* in) {
  extern __shared__ float numbers[];
  auto keep = [=] { numbers[threadIdx.x] = in[threadIdx.x]; };
  keep();
  __syncthreads();
  out[threadIdx.x] = 2 * numbers[threadIdx.x];
}
__global__ void of_integers(float* out, const float* in) {
  extern __shared__ int places[];
  int32_t* own = (int32_t*)places;
  own[threadIdx.x] = 63 - threadIdx.x;
  __syncthreads();
  out[63 - threadIdx.x] = 2 * in[((uint32_t*)places)[threadIdx.x]];
}
__global__ void by_row(float* out, const float* in) {
  extern __shared__ float rows[][32];
  rows[threadIdx.x / 32][threadIdx.x % 32] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = 2 * (*(Pair*)&rows).first[threadIdx.x];
}

void view(int which, float* out, const float* in) {
  void (*kernels[])(float*, const float*) = {
      by_reference, by_cast_reference,   by_pointer,     by_address,        by_address_of_element,
      by_array,     by_scan,             by_constant<char>, of_global_reference, of_global_cast,
      of_global_address, of_global_macro, of_local_name, in_lambda,         in_lambda_dynamic,
      of_integers,  by_row};
  kernels[which]<<<1, 64, sizeof(Pair) + 1024>>>(out, in);
}
