typedef void (*Kernel)(float*, int);
__global__ void one(float* x, int n) {}
__global__ void two(float* x, int n) {}
__global__ void kernel(float* x, int n) {}
struct Table { Kernel kernels[2]; Kernel first() const { return kernels[0]; } };
void run(Kernel chosen, const Table& table, Table* pointer, float* x, int n) {
  chosen<<<1, 2>>>(x, n);
  table.kernels[n & 1]<<<1, 2>>>(x, n);
  pointer->kernels[0]<<<1, 2>>>(x, n);
  table.first()<<<1, 2>>>(x, n);
  (n > 2 ? one : two)<<<1, 2>>>(x, n);
  (*chosen)<<<1, 2>>>(x, n);
}
void shadowed(float* x, int n) {
  auto kernel = n > 2 ? &one : &two;
  kernel<<<1, 2>>>(x, n);
}
void parameter(void (*kernel)(float*, int), float* x, int n) { kernel<<<1, 2>>>(x, n); }
void plain(float* x, int n) { kernel<<<1, 2>>>(x, n); }
