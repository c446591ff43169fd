template <typename T, int N = 2> __global__ void fill(T* x, T value) { x[threadIdx.x] = value * N; }
template <int N, typename T> __global__ void scale(T* x) { x[threadIdx.x] *= N; }
template <typename... Args> __global__ void many(Args... args) {}
template <typename T> __global__ void typed(T* x) {}
template <typename T> __global__ void over(const T* x,  // read
                                           T* y, unsigned long n);
template <typename T> __global__ void over(const T* x, T* y, unsigned long n) { y[0] = x[n]; }
template <typename T> __global__ void over(T* x, float by = 1.0f) { x[0] += by; }
__global__ void over(int* x) { x[0] = 1; }
template <> __global__ void typed(float* x) { x[0] = 2.0f; }
#define LAUNCH_TYPED(x) typed<<<1, 32>>>(x)
namespace inner { template <class = void, class T> __global__ void unnamed(T* x) {} }
namespace inner { template <class T> __global__ void named(T* x) {} }
void run(float* x) {
  constexpr int four = 4;
  fill<<<1, 32>>>(x, 1.0f);
  fill<float><<<1, 32>>>(x, 1.0f);
  scale<four><<<1, 32>>>(x);
  scale<four, float><<<1, 32>>>(x);
  many<<<1, 1>>>(x, 2, 3.0);
  auto nested = [&] { typed<<<1, 32>>>(x); };
  nested();
  over<<<1, 1>>>(x, x, 3);
  LAUNCH_TYPED(x);
  inner::unnamed<<<1, 1>>>(x);
  ::inner::named<<<1, 1>>>(x);
}
template <bool Write = true> __global__ void optional(float* x, const float* weights, float* probs) {}
void skip(float* x) {
  optional<<<1, 32>>>(x, NULL, (float*)NULL);
  typed<<<1, 32>>>(x + (NULL == 0));
}
