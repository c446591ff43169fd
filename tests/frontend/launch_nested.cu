__global__ void outer(int* p, int n) {}
__global__ void inner(int* p) {}
template <typename F> int with(F f) { f(); return 1; }
void run(int* p) {
  outer<<<with([&] { inner<<<1, 2>>>(p); }), 32>>>(p, with([&] { inner<<<3, 4>>>(p); }));
}
