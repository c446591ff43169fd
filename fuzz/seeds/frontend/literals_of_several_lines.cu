template <class T, int N = sizeof("a\
b")> __global__ void deduced(T* x) { x[0] = N; }
__global__ void kernel(float* x) {
    __shared__ __attribute__((section("c\
d"), aligned(8))) float fixed[sizeof(R"(e
f)")];
    extern __shared__ decltype(float("g\
h"[0])) dynamic[];
    __shared__ __shared__ float twice[2];
    fixed[0] = x[0];
}
extern __shared__ __attribute__((section("i\
j"))) float global[];
void run(float* x) {
    deduced<<<1, 2>>>(x);
    kernel<<<1, 2, sizeof("k\
l")>>>(x);
}
