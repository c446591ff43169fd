// Inline PTX as matrix kernels write it: asynchronous copies, ldmatrix, mma.sync, cache hints.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <stdint.h>

#define CP_ASYNC_CG(dst, src, bytes) \
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], %2;\n" ::"r"(dst), "l"(src), "n"(bytes))
#define CP_ASYNC_COMMIT_GROUP() asm volatile("cp.async.commit_group;\n" ::)
#define CP_ASYNC_WAIT_GROUP(n) asm volatile("cp.async.wait_group %0;\n" ::"n"(n))
#define LDMATRIX_X4(R0, R1, R2, R3, addr)                                             \
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"   \
               : "=r"(R0), "=r"(R1), "=r"(R2), "=r"(R3)                               \
               : "r"(addr))
#define LDMATRIX_X2_T(R0, R1, addr)                                                   \
  asm volatile("ldmatrix.sync.aligned.x2.m8n8.trans.shared.b16 {%0, %1}, [%2];\n"     \
               : "=r"(R0), "=r"(R1)                                                   \
               : "r"(addr))

__device__ __forceinline__ void mma(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], half) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};\n"
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]),
        "f"(d[0]), "f"(d[1]), "f"(d[2]), "f"(d[3]));
}
__device__ __forceinline__ void mma(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                                    __nv_bfloat16) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

template <class T>
__global__ void narrow(const float* x, T* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = (T)x[i];
}

// 16 x 32 by 32 x 8, both by rows: one warp.
template <class T>
__global__ void product(const T* a, const T* b, float* c) {
  __shared__ __align__(16) T sa[16][32 + 8];
  __shared__ __align__(16) T sb[32][8];
  const int lane = threadIdx.x;
  for (int i = lane; i < 64; i += 32) {
    uint32_t dst = static_cast<uint32_t>(__cvta_generic_to_shared(&sa[i / 4][i % 4 * 8]));
    CP_ASYNC_CG(dst, a + i * 8, 16);
  }
  uint32_t dst = (uint32_t)__cvta_generic_to_shared(&sb[lane][0]);
  CP_ASYNC_CG(dst, b + lane * 8, 16);
  CP_ASYNC_COMMIT_GROUP();
  CP_ASYNC_WAIT_GROUP(0);
  __syncwarp();
  float acc[4] = {0.f, 0.f, 0.f, 0.f};
  for (int k = 0; k < 32; k += 16) {
    uint32_t fa[4], fb[2];
    uint32_t pa = (uint32_t)__cvta_generic_to_shared(&sa[lane % 16][k + lane / 16 * 8]);
    LDMATRIX_X4(fa[0], fa[1], fa[2], fa[3], pa);
    uint32_t pb;
    const void* row = &sb[k + lane % 16][0];
    asm("{ .reg .u64 generic; cvta.to.shared.u64 generic, %1; cvt.u32.u64 %0, generic; }" : "=r"(pb) : "l"(row));
    LDMATRIX_X2_T(fb[0], fb[1], pb);
    mma(acc, fa, fb, T());
  }
  for (int e = 0; e < 4; e++) c[(lane / 4 + e / 2 * 8) * 8 + lane % 4 * 2 + e % 2] = acc[e];
}

__device__ inline uint32_t tf32(float x) {
  uint32_t r;
  asm volatile("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(x));
  return r;
}

// The same in tf32, straight from memory.
__global__ void product_tf32(const float* a, const float* b, float* c) {
  const int lane = threadIdx.x, g = lane >> 2, t = lane & 3;
  float d[4] = {};
  for (int k = 0; k < 32; k += 8) {
    uint32_t fa[4] = {tf32(a[g * 32 + k + t]), tf32(a[(g + 8) * 32 + k + t]),
                      tf32(a[g * 32 + k + t + 4]), tf32(a[(g + 8) * 32 + k + t + 4])};
    uint32_t fb[2] = {tf32(b[(k + t) * 8 + g]), tf32(b[(k + t + 4) * 8 + g])};
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(fa[0]), "r"(fa[1]), "r"(fa[2]), "r"(fa[3]), "r"(fb[0]), "r"(fb[1]));
  }
  for (int e = 0; e < 4; e++) c[(g + e / 2 * 8) * 8 + t * 2 + e % 2] = d[e];
}

// 8 by 8 values through stmatrix and a guarded copy, whose last bytes are zero.
__global__ void moved(const float* a, float* c) {
  __shared__ __align__(16) half tile[8][8];
  __shared__ __align__(16) float copied[32];
  const int lane = threadIdx.x;
  half2 pair = __floats2half2_rn(a[lane * 2], a[lane * 2 + 1]);
  uint32_t row = (uint32_t)__cvta_generic_to_shared(&tile[lane % 8][0]);
  asm volatile("stmatrix.sync.aligned.m8n8.x1.trans.shared.b16 [%0], {%1};" ::"r"(row), "r"(*(uint32_t*)&pair));
  uint32_t to = (uint32_t)__cvta_generic_to_shared(copied + lane);
  asm volatile(
      "{\n"
      " .reg .pred p;\n"
      " setp.ne.b32 p, %0, 0;   // only some lanes\n"
      " @p cp.async.ca.shared.global [%1], [%2], 4, %3;\n"
      " @!p st.shared.u32 [%1], 0;\n"
      "}\n" ::"r"((int)(lane != 3)), "r"(to), "l"(a + lane), "r"(lane < 30 ? 4 : 0));
  asm volatile("cp.async.wait_all;");
  __syncthreads();
  c[lane * 2] = __half2float(tile[lane / 4][lane % 4 * 2]);
  c[lane * 2 + 1] = __half2float(tile[lane / 4][lane % 4 * 2 + 1]);
  c[64 + lane] = copied[lane];
}

static __device__ __forceinline__ float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Loads, stores and registers: a meaning in any precision.
__global__ void streamed(const float* a, float* c, int n) {
  int lane;
  asm("mov.u32 %0, %%laneid;" : "=r"(lane));
  unsigned warp, mask;
  asm volatile("mov.u32 %0, %%warpid;" : "=r"(warp));
  asm volatile("mov.u32 %0, %%lanemask_lt;" : "=r"(mask));
  const int i = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
  float4 v;
  asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(a + i));
  float sum = v.x + v.y + v.z + v.w;
  asm("fma.rn.f32 %0, %1, %2, %3;" : "=f"(sum) : "f"(sum), "f"(0.5f), "f"(exp2_fast(v.x)));
  unsigned table;
  asm("lop3.b32 %0, %1, %2, %3, 0xE8;" : "=r"(table) : "r"(12u), "r"(10u), "r"((unsigned)lane));
  const float extra = (float)(table + __popc(mask) + warp);
  asm volatile("st.global.cs.f32 [%0], %1;" ::"l"(c + i / 4), "f"(sum + extra) : "memory");
  if (i == 0) asm volatile("red.global.add.f32 [%0], %1;" ::"l"(c + n / 4), "f"(2.5f));
}

// Integers, registers of two sizes, and what lanes tell each other; 12 bits of each result.
__global__ void integers(float* c) {
  const unsigned lane = threadIdx.x, v = lane * 2654435761u;
  unsigned r[12];
  asm("prmt.b32 %0, %1, %2, 0x0123;" : "=r"(r[0]) : "r"(v), "r"(0u));
  asm("bfe.u32 %0, %1, 4, 8;" : "=r"(r[1]) : "r"(v));
  asm("bfi.b32 %0, %1, %2, 8, 4;" : "=r"(r[2]) : "r"(lane), "r"(0xfffu));
  asm("shf.l.wrap.b32 %0, %1, %1, %2;" : "=r"(r[3]) : "r"(v), "r"(lane));
  asm("mul.hi.u32 %0, %1, %2;" : "=r"(r[4]) : "r"(v), "r"(12345u));
  asm volatile("{ .reg .pred p; shfl.sync.bfly.b32 %0|p, %1, 1, 0x1f, 0xffffffff; }" : "=r"(r[5]) : "r"(v));
  asm volatile("shfl.sync.down.b32 %0, %1, 3, 31, 0xffffffff;" : "=r"(r[6]) : "r"(lane));
  asm volatile(
      "{ .reg .pred odd, few; .reg .b32 bit, votes;\n"
      "  and.b32 bit, %1, 1;\n"
      "  setp.ne.u32 odd, bit, 0;\n"
      "  vote.sync.ballot.b32 votes, odd, 0xffffffff;\n"
      "  popc.b32 votes, votes;\n"
      "  setp.lt.s32 few, %1, 8;\n"
      "  selp.b32 %0, votes, 77, few; }"
      : "=r"(r[7]) : "r"(lane));
  asm volatile("redux.sync.add.s32 %0, %1, 0xffffffff;" : "=r"(r[8]) : "r"(lane));
  int nearest, cut;
  asm("cvt.rni.s32.f32 %0, %1;" : "=r"(nearest) : "f"(lane * 0.5f));
  asm("cvt.rzi.s32.f32 %0, %1;" : "=r"(cut) : "f"(lane * 0.75f));
  r[9] = nearest * 64 + cut;
  unsigned long long both;
  asm("mov.b64 %0, {%1, %2};" : "=l"(both) : "r"(lane), "r"(7u));
  asm("{ .reg .u64 sum; add.u64 sum, %1, 0x100000000; mov.b64 {_, %0}, sum; }" : "=r"(r[10]) : "l"(both));
  asm("mad.lo.u32 %0, %1, %2, %3;" : "=r"(r[11]) : "r"(lane), "r"(lane), "r"(5u));
  for (int i = 0; i < 12; i++) c[i * 32 + lane] = (float)(r[i] & 0xfff);
}
__global__ void pairs(float* c) {
  half2 x = __floats2half2_rn(1.5f, threadIdx.x), y = __floats2half2_rn(0.25f, 2.f), z;
  asm("{ fma.rn.f16x2 %0, %1, %2, %2;\n}" : "=r"(*(unsigned*)&z) : "r"(*(unsigned*)&x), "r"(*(unsigned*)&y));
  c[384 + 2 * threadIdx.x] = __low2float(z);
  c[385 + 2 * threadIdx.x] = __high2float(z);
}

static void run(int which, const float* a, const float* b, float* c) {
  cudaMemset(c, 0, 512 * sizeof(float));
  if (which < 2) {
    void *na, *nb;
    cudaMalloc(&na, 512 * sizeof(half));
    cudaMalloc(&nb, 256 * sizeof(half));
    if (which == 0) {
      narrow<<<2, 256>>>(a, (half*)na, 512);
      narrow<<<1, 256>>>(b, (half*)nb, 256);
      product<<<1, 32>>>((const half*)na, (const half*)nb, c);
    } else {
      narrow<<<2, 256>>>(a, (__nv_bfloat16*)na, 512);
      narrow<<<1, 256>>>(b, (__nv_bfloat16*)nb, 256);
      product<<<1, 32>>>((const __nv_bfloat16*)na, (const __nv_bfloat16*)nb, c);
    }
    cudaFree(na), cudaFree(nb);
  } else if (which == 2) {
    product_tf32<<<1, 32>>>(a, b, c);
  } else if (which == 3) {
    moved<<<1, 32>>>(a, c);
  } else if (which == 5) {
    integers<<<1, 32>>>(c);
    pairs<<<1, 32>>>(c);
  } else {
    streamed<<<2, 64>>>(a, c, 512);
  }
}
