// CUDA's SIMD intrinsics and the integer ones beside them, each on the words of a row.
#include <cuda_runtime.h>

__device__ unsigned next_word(unsigned& state) {
  state ^= state << 13;
  state ^= state >> 17;
  state ^= state << 5;
  // Bytes at the ends of their range are as common as all others.
  unsigned word = state;
  for (int i = 0; i < 32; i += 8) {
    if ((state >> i & 12u) == 0) word = (word & ~(255u << i)) | ((state >> i & 1u ? 128u : 127u) << i);
    if ((state >> i & 12u) == 4) word = (word & ~(255u << i)) | ((state >> i & 1u ? 255u : 0u) << i);
  }
  return word;
}

// The halves of a word are exact in a float.
#define ROW(value)                              \
  {                                             \
    const unsigned word = (unsigned)(value);    \
    y[2 * (row * n + i)] = word & 0xffffu;      \
    y[2 * (row * n + i) + 1] = word >> 16;      \
    row++;                                      \
  }
#define OF_SIGN(W, s) \
  ROW(__vmax##s##W(a, b)) \
  ROW(__vmin##s##W(a, b)) \
  ROW(__vabsdiff##s##W(a, b)) \
  ROW(__vcmpgt##s##W(a, b)) \
  ROW(__vcmpge##s##W(a, b)) \
  ROW(__vcmplt##s##W(a, b)) \
  ROW(__vcmple##s##W(a, b)) \
  ROW(__vsetgt##s##W(a, b)) \
  ROW(__vsetge##s##W(a, b)) \
  ROW(__vsetlt##s##W(a, b)) \
  ROW(__vsetle##s##W(a, b)) \
  ROW(__vsad##s##W(a, b))
#define OF_WIDTH(W) \
  ROW(__vadd##W(a, b)) \
  ROW(__vsub##W(a, b)) \
  ROW(__vaddss##W(a, b)) \
  ROW(__vaddus##W(a, b)) \
  ROW(__vsubss##W(a, b)) \
  ROW(__vsubus##W(a, b)) \
  ROW(__vavgu##W(a, b)) \
  ROW(__vavgs##W(a, b)) \
  ROW(__vhaddu##W(a, b)) \
  ROW(__vcmpeq##W(a, b)) \
  ROW(__vcmpne##W(a, b)) \
  ROW(__vseteq##W(a, b)) \
  ROW(__vsetne##W(a, b)) \
  ROW(__vabs##W(a)) \
  ROW(__vabsss##W(a)) \
  ROW(__vneg##W(a)) \
  ROW(__vnegss##W(a)) \
  OF_SIGN(W, s) OF_SIGN(W, u)
#define CHOICE(max) \
  ROW(__viadd##max##_s32(a, b, c)) ROW(__viadd##max##_u32(a, b, c)) \
  ROW(__viadd##max##_s32_relu(a, b, c)) \
  ROW(__viadd##max##_s16x2(a, b, c)) ROW(__viadd##max##_u16x2(a, b, c)) \
  ROW(__viadd##max##_s16x2_relu(a, b, c)) \
  ROW(__vi##max##3_s32(a, b, c)) ROW(__vi##max##3_u32(a, b, c)) ROW(__vi##max##3_s32_relu(a, b, c)) \
  ROW(__vi##max##3_s16x2(a, b, c)) ROW(__vi##max##3_u16x2(a, b, c)) \
  ROW(__vi##max##3_s16x2_relu(a, b, c)) \
  ROW(__vi##max##_s32_relu(a, b)) ROW(__vi##max##_s16x2_relu(a, b)) \
  ROW(__vib##max##_s32(a, b, &first)) ROW(first) ROW(__vib##max##_u32(a, b, &first)) ROW(first) \
  ROW(__vib##max##_s16x2(a, b, &first, &second)) ROW(first * 2 + second) \
  ROW(__vib##max##_u16x2(a, b, &first, &second)) ROW(first * 2 + second)

__global__ void intrinsics(float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned state = 2463534242u + i * 977u;
  const unsigned a = next_word(state), b = next_word(state), c = next_word(state);
  bool first, second;
  int row = 0;
  OF_WIDTH(2)
  OF_WIDTH(4)
  CHOICE(max)
  CHOICE(min)
  ROW(__dp2a_lo((int)a, (int)b, (int)c)) ROW(__dp2a_lo(a, b, c))
  ROW(__dp2a_hi((int)a, (int)b, (int)c)) ROW(__dp2a_hi(a, b, c))
  ROW(__dp4a((int)a, (int)b, (int)c)) ROW(__dp4a(a, b, c))
  ROW(__fns(a, b & 31u, (int)(c % 9u) - 4))
}

void run(float* y, int n) { intrinsics<<<(n + 63) / 64, 64>>>(y, n); }
