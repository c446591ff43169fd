__global__ void k(int* p, int n) {}
template <bool B, typename T> void pick(T* p, int n) {
  if constexpr (B) k<<<1, 1>>>(p, n);
  else
    k<<<1, 2>>>(p, n);
  for (int i = 0; i < n; i++) k<<<i, 3, 0>>>(p, i);
  while (n-- > 0) { k<<<n, 4, 0, 0>>>(p, n); }
  do k<<<1, 5>>>(p, n); while (--n > 0);
  n > 3 ? k<<<1, 6>>>(p, n) : (void)0, k<<<1, 7>>>(p, n);
  label: k<<<1, 8>>>(p, n);
  [[maybe_unused]] auto f = [p, n] { return k<<<1, 9>>>(p, n); };
  (void)k<<<1, 10>>>(p, n);
}
