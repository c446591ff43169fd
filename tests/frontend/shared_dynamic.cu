extern __shared__ float at_namespace_scope[];
template <typename T> __global__ void kern(T* x, int n) {
  extern __shared__ float s[];
  extern __shared__ __align__(16) unsigned char raw[];
  __shared__ extern volatile T typed[];
  extern __shared__ __attribute__((aligned(16))) double wide[];
  extern __shared__ alignas(sizeof(T) * 2) float rows[][32];
  T* mine = reinterpret_cast<T*>(raw); s[0] = rows[0][1] + at_namespace_scope[2] + mine[0] + typed[1];
}
