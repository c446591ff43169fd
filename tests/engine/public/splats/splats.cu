// Kernels as splatting pipelines write them: shared memory carved from integers, depth bits as keys, maxima by bits.
#ifndef FACTOR
#define FACTOR 1.0f
#endif
#include <cstdint>
#include <cstdlib>
#include <cuda_runtime.h>
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cub/cub.cuh>
namespace cg = cooperative_groups;
#define N_THREADS 64
#define MAX_REGISTER 3
using vec3 = float3;
inline __device__ void warpSum3(float3& val, cg::thread_block_tile<32>& tile) {
    val.x = cg::reduce(tile, val.x, cg::plus<float>());
    val.y = cg::reduce(tile, val.y, cg::plus<float>());
    val.z = cg::reduce(tile, val.z, cg::plus<float>());
}
__global__ void rasterize_forward(int n, const float2* xys, const float3* conics, const float* colors, float* out) {
    auto block = cg::this_thread_block();
    extern __shared__ int s[];
    int32_t* id_batch = (int32_t*)s;
    float3* xy_opacity_batch = reinterpret_cast<float3*>(&id_batch[N_THREADS]);
    float3* conic_batch = reinterpret_cast<float3*>(&xy_opacity_batch[N_THREADS]);
    int tr = block.thread_rank();
    float T = 1.f, acc = 0.f;
    for (int b = 0; b < n; b += N_THREADS) {
        block.sync();
        if (b + tr < n) {
            id_batch[tr] = b + tr;
            xy_opacity_batch[tr] = {xys[b + tr].x, xys[b + tr].y, 0.5f};
            conic_batch[tr] = conics[b + tr];
        }
        block.sync();
        int m = min(N_THREADS, n - b);
        for (int t = 0; t < m; ++t) {
            const float3 conic = conic_batch[t];
            const float3 xy = xy_opacity_batch[t];
            const float2 delta = {xy.x - 0.1f * tr, xy.y - 0.2f};
            const float sigma = 0.5f * (conic.x * delta.x * delta.x + conic.z * delta.y * delta.y) + conic.y * delta.x * delta.y;
            const float alpha = min(0.999f, xy.z * __expf(-fabsf(sigma)));
            if (alpha < 1.f / 255.f) continue;
            acc += colors[id_batch[t] % n] * alpha * T * FACTOR;
            T = T * (1.f - alpha);
        }
    }
    out[blockIdx.x * N_THREADS + tr] = acc;
}
__global__ void rasterize_backward(int n, const float* x, float* v_xy) {
    auto block = cg::this_thread_block();
    cg::thread_block_tile<32> warp = cg::tiled_partition<32>(block);
    __shared__ float4 packs[N_THREADS];
    __shared__ int32_t ids[N_THREADS];
    int tr = block.thread_rank();
    int gx = block.group_index().x;
    int i = gx * N_THREADS + tr;
    ids[tr] = i < n ? i : 0;
    packs[tr] = i < n ? make_float4(x[i], x[i] * x[i], 1.f, 0.f) : make_float4(0.f, 0.f, 0.f, 0.f);
    block.sync();
    for (int t = 0; t < 4; ++t) {
        float3 v = {packs[t].x * packs[tr].x * FACTOR, packs[t].y, packs[tr].z};
        warpSum3(v, warp);
        if (warp.thread_rank() == 0) {
            float* ptr = v_xy + 2 * (gx * 4 + t);
            atomicAdd(ptr, v.x); atomicAdd(ptr + 1, v.y + v.z);
        }
    }
}
// the other pipeline
__device__ inline float atomicMaxFloat(float* addr, float value) {
    return (value >= 0) ? __int_as_float(atomicMax((int*)addr, __float_as_int(value)))
                        : __uint_as_float(atomicMin((unsigned int*)addr, __float_as_uint(value)));
}
__global__ void block_max(int n, const float* x, float* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicMaxFloat(out, x[i]);
}
__device__ static float atomicMinCas(float* address, float val) {
    int* address_as_i = (int*)address;
    int old = *address_as_i, assumed;
    do {
        assumed = old;
        old = ::atomicCAS(address_as_i, assumed, __float_as_int(::fminf(val, __int_as_float(assumed))));
    } while (assumed != old);
    return __int_as_float(old);
}
__global__ void block_min(int n, const float* x, float* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicMinCas(out, x[i]);
}
__global__ void project(int n, const float* x, float* depths) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) depths[i] = expf(x[i]) / 3.0f * FACTOR;
}
__global__ void duplicateWithKeys(int P, const float* depths, uint64_t* keys, uint32_t* values) {
    auto idx = cg::this_grid().thread_rank();
    if (idx >= P) return;
    uint64_t key = idx % 4;
    key <<= 32;
    key |= *((uint32_t*)&depths[idx]);
    keys[idx] = key; values[idx] = idx;
}
__global__ void map_to_intersects(int P, const float* depths, int64_t* keys, int32_t* values) {
    unsigned idx = cg::this_grid().thread_rank();
    if (idx >= P) return;
    int64_t depth_id = (int64_t) * (int32_t *)&(depths[idx]);
    keys[idx] = ((int64_t)(idx % 4) << 32) | depth_id; values[idx] = idx;
}
__global__ void identify(int P, const uint64_t* keys, const uint32_t* values, const float* depths, float* out) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx < P) out[idx] = depths[values[idx]] * (1.0f + (keys[idx] >> 32));
}
struct GeometryState {
    float* depths; uint64_t* keys; uint64_t* keys2; uint32_t* v1; uint32_t* v2; char* temp; size_t temp_size;
    static GeometryState fromChunk(char*& chunk, size_t P);
};
template <typename T> static void obtain(char*& chunk, T*& ptr, std::size_t count, std::size_t alignment) {
    std::size_t offset = (reinterpret_cast<std::uintptr_t>(chunk) + alignment - 1) & ~(alignment - 1);
    ptr = reinterpret_cast<T*>(offset);
    chunk = reinterpret_cast<char*>(ptr + count);
}
GeometryState GeometryState::fromChunk(char*& chunk, size_t P) {
    GeometryState g;
    obtain(chunk, g.depths, P, 128); obtain(chunk, g.keys, P, 128); obtain(chunk, g.keys2, P, 128);
    obtain(chunk, g.v1, P, 128); obtain(chunk, g.v2, P, 128);
    cub::DeviceRadixSort::SortPairs(nullptr, g.temp_size, g.keys, g.keys2, g.v1, g.v2, P);
    obtain(chunk, g.temp, g.temp_size, 128);
    return g;
}
template <typename T> size_t required(size_t P) { char* size = nullptr; T::fromChunk(size, P); return ((size_t)size) + 128; }
void run_raster(float* y, const float* x, int n) {
    size_t shared = N_THREADS * (sizeof(int32_t) + sizeof(float3) + sizeof(float3));
    rasterize_forward<<<n / N_THREADS, N_THREADS, shared>>>(n / 3, (const float2*)x, (const float3*)x, x, y);
}
void run_back(float* y, const float* x, int n) { cudaMemset(y, 0, n * sizeof(float)); rasterize_backward<<<2, N_THREADS>>>(n, x, y); }
void run_max(float* y, const float* x, int n) { cudaMemset(y, 0, n * sizeof(float)); float* depths; cudaMalloc(&depths, n * sizeof(float)); project<<<n / 32, 32>>>(n, x, depths); block_max<<<n / 32, 32>>>(n - 2, depths, y); }
void run_min(float* y, const float* x, int n) { cudaMemset(y, 0, n * sizeof(float)); float* depths; cudaMalloc(&depths, n * sizeof(float)); project<<<n / 32, 32>>>(n, x, depths); cudaMemcpy(y, depths, sizeof(float), cudaMemcpyDeviceToDevice); block_min<<<n / 32, 32>>>(n, depths, y); }
void run_sort(float* y, const float* x, int n) {
    size_t bytes = required<GeometryState>(n); char* chunk; cudaMalloc((void**)&chunk, bytes);
    GeometryState g = GeometryState::fromChunk(chunk, n);
    project<<<n / 32, 32>>>(n, x, g.depths);
    duplicateWithKeys<<<n / 32, 32>>>(n, g.depths, g.keys, g.v1);
    cub::DeviceRadixSort::SortPairs(g.temp, g.temp_size, g.keys, g.keys2, g.v1, g.v2, n, 0, 34);
    identify<<<n / 32, 32>>>(n, g.keys2, g.v2, g.depths, y);
}
void run_sort2(float* y, const float* x, int n) {
    size_t bytes = required<GeometryState>(n); char* chunk; cudaMalloc((void**)&chunk, bytes);
    GeometryState g = GeometryState::fromChunk(chunk, n);
    project<<<n / 32, 32>>>(n, x, g.depths);
    map_to_intersects<<<n / 32, 32>>>(n, g.depths, (int64_t*)g.keys, (int32_t*)g.v1);
    cub::DeviceRadixSort::SortPairs(g.temp, g.temp_size, (int64_t*)g.keys, (int64_t*)g.keys2, (int32_t*)g.v1, (int32_t*)g.v2, n, 0, 34);
    identify<<<n / 32, 32>>>(n, g.keys2, g.v2, g.depths, y);
}
void run(int which, float* y, const float* x, int n) {
    decltype(&run_max) runs[] = {run_max, run_min, run_sort, run_sort2, run_back, run_raster};
    runs[which](y, x, n);
}
