#include <vector>
template <typename T> T add(T a, T b) { return a + b; }
struct Stream { Stream& operator<<(int) { return *this; } };
int shift(int a, int b) { return a << b >> 1; }
int main() { std::vector<std::vector<int>> v; Stream s; s << 1 << 2; return shift(add(1, 2), 3) < 4; }
