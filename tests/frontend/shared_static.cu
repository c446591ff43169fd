template <typename T, int N> struct Reduce { struct Storage { T x[N]; }; };
struct Pair { float a; int b; };
constexpr int TILE = 16;
template <int N>
__global__ void kern(float* x) {
  __shared__ float a[TILE][TILE + 1], b;
  static __shared__ __align__(16) Pair pairs[N];
  __shared__ static int counter;
  __shared__ alignas(8) double d;
  volatile __shared__ float v[32];
  __shared__ volatile int flag;
  __shared__ typename Reduce<float, N>::Storage storage;
  __shared__ union { float f[4]; int i[4]; } u;
  __shared__ struct Named { float f; } named[2];
  __shared__ float *pointer, (*row)[4];
  __shared__ unsigned long long big;
  float __shared__ late[3];
  if (threadIdx.x == 0) { __shared__ bool done; done = true; }
  a[0][0] = b + pairs[0].a + counter + d + v[0] + flag + storage.x[0] + u.f[0] + named[0].f + *pointer + (*row)[0] + big + late[0];
}
__device__ float helper() { __shared__
  float
    spread[ 4
    ]; return spread[0]; }
