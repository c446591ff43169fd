// As public trainers are written: one name for a kernel and its launcher, defaults left out, a main.
template <int BLOCK = 256>
__global__ void scale(float* x, int n) {
  for (int i = threadIdx.x; i < n; i += BLOCK) x[i] *= 2;
}
template <int BLOCK = 256, class T>
__global__ void fill(T* x, T value) { x[threadIdx.x] = value; }
__global__ void add(float* x, const float* y) { x[threadIdx.x] += y[threadIdx.x]; }
__global__ void add(double* x, const double* y) { x[threadIdx.x] += y[threadIdx.x]; }
__global__ void gelu(float* out, const float* in, int n) { out[0] = in[0]; }
void gelu(float* out, const float* in, int n, int block_size) {
  gelu<<<n / block_size, block_size>>>(out, in, n);
}
void run(float* x, float* y, int n) {
  scale<<<1, 256>>>(x, n);
  scale<128><<<1, 128>>>(x, n);
  fill<128><<<1, 128>>>(x, 1.0f);
  add<<<1, 32>>>(x, y);
}
#ifdef BUILD_MAIN
int main(int argc, char** argv) {
  int x = tex2D<float>(0, 0, 0);
  missing<<<1, 2>>>(x);
  return 0;
}
#endif
