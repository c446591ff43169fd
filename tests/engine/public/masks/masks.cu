// Vectors of 16 bytes that hold integers beside those that move numbers: masks, indices and random bits.
#include <cuda_runtime.h>
#include <stdint.h>

#ifndef FACTOR
#define FACTOR 1
#endif

__global__ void scale_kernel(float* y, const float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = float(x[i] / 3.0f * FACTOR);
}

__global__ void copy_kernel(float* __restrict__ to, const float* __restrict__ from, int n4) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n4) reinterpret_cast<int4*>(to)[i] = reinterpret_cast<const int4*>(from)[i];
}

// A mask and indices, drawn by the host before.
__global__ void fill_kernel(int* mask, int* places, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) mask[i] = i % 3 == 0, places[i] = n - 1 - i;
}

__global__ void masked_kernel(const float4* __restrict__ x, const int4* __restrict__ mask, float4* __restrict__ y, int n4) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n4) return;
  const float4 v = x[i];
  const int4 m = __ldg(&mask[i]);
  float4 o;
  o.x = m.x ? v.x : 0.0f;
  o.y = m.y ? v.y : 0.0f;
  o.z = m.z ? v.z : 0.0f;
  o.w = m.w ? v.w : 0.0f;
  y[i] = o;
}

template <typename T>
__global__ void gather_kernel(T* y, const T* x, const int* places, int n4) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n4) return;
  y[4 * i] = x[reinterpret_cast<const int4*>(places)[i].x];
  auto rest = reinterpret_cast<const int4*>(places) + i;
  int4 place = __ldg(rest);
  y[4 * i + 1] = x[place.y];
  y[4 * i + 2] = x[place.z];
  y[4 * i + 3] = x[(*rest).w];
}

// Vectors behind `auto`, in a file that moves others as integers.
__global__ void add_kernel(float* y, const float* x, int n4) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n4) return;
  auto a = reinterpret_cast<const float4*>(x)[i];
  const auto* b = reinterpret_cast<const float4*>(x) + (n4 - 1 - i);
  reinterpret_cast<float4*>(y)[i] = make_float4(a.x + b->x, a.y + b->y, a.z + b->z, a.w + b->w);
}

__device__ uint4 random_bits(uint32_t seed, uint32_t place) {
  uint32_t bits = seed ^ place * 0x9e3779b9u;
  return make_uint4(bits, bits * 0x85ebca6bu, bits ^ bits >> 7, bits * 3);
}

__global__ void dropout_kernel(float* y, const float* x, int n4) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n4) return;
  uint4 bits = random_bits(17, i);
  float4 v = reinterpret_cast<const float4*>(x)[i];
  v.x = bits.x >> 31 ? v.x : 0.0f;
  v.y = bits.y >> 31 ? v.y : 0.0f;
  v.z = bits.z >> 31 ? v.z : 0.0f;
  v.w = bits.w >> 31 ? v.w : 0.0f;
  reinterpret_cast<float4*>(y)[i] = v;
}

// Integers are moved as such by a kernel that looks into none.
__global__ void copy_places_kernel(int* to, const int* from, int n4) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n4) ((int4*)to)[i] = ((const int4*)from)[i];
}

// Not to be widened: a number's bits behind `auto`.
__global__ void parity_kernel(float* y, const float* x, int n4) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n4) return;
  auto bits = reinterpret_cast<const uint4*>(x)[i];
  y[i] = bits.x & 1;
}

void run(int which, float* y, const float* x, int n) {
  float *scaled, *copied;
  int *mask, *places, *copied_places;
  cudaMalloc(&scaled, n * sizeof(float));
  cudaMalloc(&copied, n * sizeof(float));
  cudaMalloc(&mask, n * sizeof(int));
  cudaMalloc(&places, n * sizeof(int));
  cudaMalloc(&copied_places, n * sizeof(int));
  int blocks = (n + 63) / 64;
  scale_kernel<<<blocks, 64>>>(scaled, x, n);
  copy_kernel<<<blocks, 64>>>(copied, scaled, n / 4);
  fill_kernel<<<blocks, 64>>>(mask, places, n);
  copy_places_kernel<<<blocks, 64>>>(copied_places, places, n / 4);
  if (which == 0) masked_kernel<<<blocks, 64>>>((const float4*)copied, (const int4*)mask, (float4*)y, n / 4);
  if (which == 1) gather_kernel<<<blocks, 64>>>(y, copied, copied_places, n / 4);
  if (which == 2) add_kernel<<<blocks, 64>>>(y, copied, n / 4);
  if (which == 3) dropout_kernel<<<blocks, 64>>>(y, copied, n / 4);
  if (which == 4) parity_kernel<<<blocks, 64>>>(y, copied, n / 4);
  cudaFree(scaled);
  cudaFree(copied);
  cudaFree(mask);
  cudaFree(places);
  cudaFree(copied_places);
}
