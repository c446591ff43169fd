struct __align__(16) Vec { float x[4]; };
typedef struct __align__(8) { int a, b; } Two;
__device__ __noinline__ float slow(float x) { return x; }
__device__ __attribute__((__noinline__)) float slow2(float x) { return x; }
#define SLOW __noinline__
static __device__ __forceinline__ float fast(float x) { return x; }
extern "C" __global__ void __launch_bounds__(128) c_kernel(Vec* v) { v->x[0] = slow(1.f); }
__global__ void __launch_bounds__(256, 4) big(const __grid_constant__ Two t) {}
__global__ void __maxnreg__(64) small(int* p) {}
__constant__ float table[4] = {1.f, 2.f, 3.f, 4.f};
__device__ int counter;
void run(Vec* v, Two t) { c_kernel<<<1, 128>>>(v); big<<<1, 256>>>(t); }
