// Numbers that are moved as integers of 16 bytes, by casts of both kinds.
struct alignas(16) Four { float v[4]; };
template <class T>
__device__ int4 load(const T* address) { return *reinterpret_cast<const int4*>(address); }
__device__ void copy(float* to, const float* from, int i) {
  ((int4*)to)[i] = *(const int4*)&from[4 * i];
}
__device__ float looks(const float* x) {
  int4 bits = load(x);
  return __int_as_float(bits.x);
}
__device__ void narrow(const float4* x) {
  float4 v = x[0];
  __half2* h = reinterpret_cast<__half2*>(&v);
  unsigned* u = reinterpret_cast<unsigned*>(&v);
}
__device__ int2 smaller(const float* x) { return *reinterpret_cast<const int2*>(x); }
#define LOOK(x) (((const uint4*)(x))[0].y)
