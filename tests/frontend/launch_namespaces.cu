namespace { __global__ void hidden(int* p) {} }
namespace a::b { template <typename T> __global__ void kern(T* p) {} inline namespace v1 { __global__ void plain(int* p) {} } }
namespace alias = a::b;
using a::b::plain;
extern "C" { __global__ void c_kernel(int* p); }
struct Host { static void go(int* p) { hidden<<<1, 1>>>(p); } void operator()(int* p) const { alias::kern<int><<<1, 2>>>(p); } operator bool() const { return true; } };
Host make() { return Host{}; }
void run(int* p) try { ::a::b::v1::plain<<<1, 1>>>(p); plain<<<1, 2>>>(p); c_kernel<<<1, 3>>>(p); } catch (...) {}
