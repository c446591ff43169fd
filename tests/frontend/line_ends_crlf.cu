__global__ void k(int* p) {
  __shared__ int s; }
void run(int* p) {
  k<<<1,\
 2>>>(p);
}
#define L(k) \
  k<<<1, 2>>>(0)
