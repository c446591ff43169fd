template <typename T, int N = 2> __global__ void fill(T* x, T value) { x[threadIdx.x] = value * N; }
template <int N, typename T> __global__ void scale(T* x) { x[threadIdx.x] *= N; }
template <typename... Args> __global__ void many(Args... args) {}
template <typename T> __global__ void typed(T* x) {}
void run(float* x) {
  constexpr int four = 4;
  fill<<<1, 32>>>(x, 1.0f);
  fill<float><<<1, 32>>>(x, 1.0f);
  scale<four><<<1, 32>>>(x);
  scale<four, float><<<1, 32>>>(x);
  many<<<1, 1>>>(x, 2, 3.0);
  auto nested = [&] { typed<<<1, 32>>>(x); };
  nested();
}
