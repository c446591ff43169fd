int max(int a, int b); int min(int a, int b);
template <int B> struct Shape { static constexpr int threads = B; static dim3 grid(int n) { return dim3(n / B); } };
__global__ void k(float* p) {}
template <typename S> void run(float* p, int n, cudaStream_t stream) {
  k<<<S::grid(n), S::threads, n < 8 ? 16 : (n >> 1), stream>>>(p);
  k<<<dim3{1, 2, 3}, dim3(8, 8)>>>(p);
  k<<<(n > 4 && n >> 2 > 1), 32>>>(p + (n >> 1));
  k<<<[&]() { dim3 g; g.x = n; return g; }(), 1>>>(p);
  k<<<max(n, 1), min(n, 1024), sizeof(float[4])>>>(&p[n]);
  k<<<1, Shape<256>::threads>>>(p);
  k<<<{2, 2}, 32>>>(p);
}
