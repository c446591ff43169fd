// Warp matrix functions as tutorials use them: fragments in both layouts, three kinds of operands.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>
#include <type_traits>

using namespace nvcuda;

template <class T>
__global__ void narrow(const float* x, T* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = (T)x[i];
}

// M x 32 by 32 x N with A by rows, and B as LB says; twice the sum.
template <int M, int N, class T, class LB, class C>
__global__ void product(const T* a, const T* b, C* c) {
  wmma::fragment<wmma::matrix_a, M, N, 16, T, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, M, N, 16, T, LB> fb;
  wmma::fragment<wmma::accumulator, M, N, 16, C> acc;
  wmma::fill_fragment(acc, 0.0f);
  const bool rows = std::is_same<LB, wmma::row_major>::value;
  for (int k = 0; k < 32; k += 16) {
    wmma::load_matrix_sync(fa, a + k, 32);
    wmma::load_matrix_sync(fb, rows ? b + k * N : b + k, rows ? N : 32);
    wmma::mma_sync(acc, fa, fb, acc);
  }
  for (int i = 0; i < acc.num_elements; i++) acc.x[i] = acc.x[i] * (C)2.0f;
  wmma::store_matrix_sync(c, acc, N, wmma::mem_row_major);
}

__global__ void product_tf32(const float* a, const float* b, float* c) {
  wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::col_major> fb;
  wmma::fragment<wmma::accumulator, 16, 16, 8, float> acc;
  wmma::load_matrix_sync(acc, c, 16, wmma::mem_col_major);
  for (int k = 0; k < 32; k += 8) {
    wmma::load_matrix_sync(fa, a + k, 32);
    wmma::load_matrix_sync(fb, b + k, 32);
    for (int t = 0; t < fa.num_elements; t++) fa.x[t] = wmma::__float_to_tf32(fa.x[t]);
    for (int t = 0; t < fb.num_elements; t++) fb.x[t] = wmma::__float_to_tf32(fb.x[t]);
    wmma::mma_sync(acc, fa, fb, acc);
  }
  wmma::store_matrix_sync(c, acc, 16, wmma::mem_col_major);
}

// 16 x 32 by 32 x 16 of bytes: four times the values.
__global__ void product_bytes(const float* a, const float* b, float* c) {
  __shared__ signed char sa[16 * 32], sb[32 * 16];
  __shared__ int sums[256];
  for (int i = threadIdx.x; i < 512; i += 32) sa[i] = (signed char)(a[i] * 4), sb[i] = (signed char)(b[i] * 4);
  __syncwarp();
  wmma::fragment<wmma::matrix_a, 16, 16, 16, signed char, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, signed char, wmma::row_major> fb;
  wmma::fragment<wmma::accumulator, 16, 16, 16, int> acc;
  wmma::fill_fragment(acc, 0);
  for (int k = 0; k < 32; k += 16) {
    wmma::load_matrix_sync(fa, sa + k, 32);
    wmma::load_matrix_sync(fb, sb + k * 16, 16);
    wmma::mma_sync(acc, fa, fb, acc);
  }
  wmma::store_matrix_sync(sums, acc, 16, wmma::mem_row_major);
  __syncwarp();
  for (int i = threadIdx.x; i < 256; i += 32) c[i] = (float)sums[i];
}

template <class T>
static void run_as(int which, const float* a, const float* b, float* c) {
  T *na, *nb;
  cudaMalloc(&na, 1024 * sizeof(T));
  cudaMalloc(&nb, 1024 * sizeof(T));
  narrow<<<4, 256>>>(a, na, 1024);
  narrow<<<4, 256>>>(b, nb, 1024);
  if (which % 3 == 0) product<16, 16, T, wmma::row_major><<<1, 32>>>(na, nb, c);
  if (which % 3 == 1) product<32, 8, T, wmma::col_major><<<1, 32>>>(na, nb, c);
  if (which % 3 == 2) product<8, 32, T, wmma::row_major><<<1, 32>>>(na, nb, c);
  cudaFree(na), cudaFree(nb);
}

__global__ void widen(const half* x, float* y) { y[threadIdx.x] = __half2float(x[threadIdx.x]); }

static void run(int which, const float* a, const float* b, float* c) {
  cudaMemset(c, 0, 512 * sizeof(float));
  if (which < 3) {
    run_as<half>(which, a, b, c);
  } else if (which < 6) {
    run_as<__nv_bfloat16>(which, a, b, c);
  } else if (which == 6) {
    product_tf32<<<1, 32>>>(a, b, c);
  } else if (which == 8) {
    product_bytes<<<1, 32>>>(a, b, c);
  } else {
    half *na, *nb, *nc;
    cudaMalloc(&na, 1024 * sizeof(half));
    cudaMalloc(&nb, 1024 * sizeof(half));
    cudaMalloc(&nc, 256 * sizeof(half));
    narrow<<<4, 256>>>(a, na, 1024);
    narrow<<<4, 256>>>(b, nb, 1024);
    product<16, 16, half, wmma::row_major><<<1, 32>>>(na, nb, nc);
    widen<<<1, 256>>>(nc, c);
    cudaFree(na), cudaFree(nb), cudaFree(nc);
  }
}
