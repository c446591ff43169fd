template <typename T, int N = 4> __global__ void kern(T* x) {}
template <typename T> struct Pair { T a, b; };
template <int N> struct Tag {};
template <typename T> __global__ void kern2(T x) {}
template <> __global__ void kern2<int>(int x) {}
template <typename T>
struct Runner {
  template <int N> static void launch(T* x);
  void run(T* x) const {
    kern<T, sizeof(T)><<<1, 2>>>(x);
    Runner<T>::template launch<4>(x);
  }
};
template <typename T, int BLOCK>
void dispatch(T* x, int n) {
  kern<T, BLOCK><<<n, BLOCK, BLOCK * sizeof(T)>>>(x);
  kern<Pair<Pair<T>>><<<1, 1>>>(nullptr);
  kern2<Tag<(BLOCK > 4 ? 1 : 2)>><<<n >> 1, 1>>>({});
  kern<float, (BLOCK < 4)><<<1, 1>>>(nullptr);
}
