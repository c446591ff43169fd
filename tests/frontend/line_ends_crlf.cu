__global__ void k(int* p) {}
void run(int* p) {
  __shared__ int s;
  k<<<1,\
 2>>>(p);
}
#define L(k) \
  k<<<1, 2>>>(0)
