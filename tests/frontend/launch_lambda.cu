template <typename F> __global__ void apply(F f, int n) { f(threadIdx.x); }
__global__ void inner(int* p) {}
static int count() { return 3; }
void run(int* p, int n) {
  auto go = [&](int grid) {
    inner<<<grid, 32>>>(p);
    return [=] { inner<<<1, [] { return 2; }()>>>(p); };
  };
  go(count())();
  apply<<<1, n>>>([=] __device__ (int i) { p[i] = i; }, n);
  for (int i = 0; i < 2; ++i) { switch (i) { case 0: inner<<<1, 1>>>(p); break; default: inner<<<2, 1>>>(p); } }
}
auto at_namespace_scope = [](int* p) { inner<<<1, 4>>>(p); };
