// cuBLAS: products of matrices, and the usual vector functions of training code. On the CPU they are
// computed here, on a GPU by NVIDIA's library. cuBLAS Library: "cuBLAS Level-1/2/3 Function Reference",
// "BLAS-like Extension".
#pragma once

#include "cublas_api.h"
#include "replay/blas_call.h"
#include "replay/gemm.h"

namespace replay_rt {

/// alpha and beta, from the host or the device as the handle says.
template <class Scale>
inline void gemm_scales(gemm_problem& p, cublasHandle_t handle, const Scale* alpha,
                        const Scale* beta) {
  const bool on_device = handle->pointer_mode == CUBLAS_POINTER_MODE_DEVICE;
  p.alpha = on_device ? alpha : nullptr;
  p.beta = on_device ? beta : nullptr;
  p.alpha_value = on_device ? 0 : (double)*alpha;
  p.beta_value = on_device ? 0 : (double)*beta;
}

/// One call of the family, with the common parameters of all its forms.
struct blas_gemm {
  cublasHandle_t handle;
  cublasOperation_t transa, transb;
  int m, n, k;
  const void* a;
  cudaDataType_t a_type;
  int lda;
  long long stride_a;
  const void* b;
  cudaDataType_t b_type;
  int ldb;
  long long stride_b;
  void* c;
  cudaDataType_t c_type;
  int ldc;
  long long stride_c;
  int batches;
  bool by_pointer;  // a, b and c are arrays of pointers
  cublasComputeType_t compute;
  cublasGemmAlgo_t algorithm;

  bool is_valid() const {
    const int rows_a = transa == CUBLAS_OP_N ? m : k, rows_b = transb == CUBLAS_OP_N ? k : n;
    auto fits = [](int ld, int rows) { return ld >= (rows > 1 ? rows : 1); };
    return m >= 0 && n >= 0 && k >= 0 && batches >= 0 && fits(lda, rows_a) && fits(ldb, rows_b) &&
           fits(ldc, m);
  }
};

template <class Scale>
cublasStatus_t call_gemm(const blas_gemm& g, const Scale* alpha, const Scale* beta,
                         const char* name, replay_site site) {
  const bool on_device = g.handle->pointer_mode == CUBLAS_POINTER_MODE_DEVICE;
  blas_call call = {};
  call.alpha = blas_factor::of(alpha, on_device), call.beta = blas_factor::of(beta, on_device);
  call.a = {g.a, g.lda, g.stride_a, g.a_type};
  call.b = {g.b, g.ldb, g.stride_b, g.b_type};
  call.c = {g.c, g.ldc, g.stride_c, g.c_type};
  call.operation_a = g.transa, call.operation_b = g.transb;
  call.m = g.m, call.n = g.n, call.k = g.k, call.batches = g.batches;
  call.compute = (int32_t)g.compute, call.algorithm = g.algorithm, call.math = g.handle->math;
  return call_library(call, name, g.handle->stream, site);
}

template <class Acc, class Scale>
cublasStatus_t run_gemm(const blas_gemm& g, const Scale* alpha, const Scale* beta,
                        const char* name, replay_site site) {
  if (g.handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (!g.is_valid()) return CUBLAS_STATUS_INVALID_VALUE;
  if (has_libraries()) return call_gemm(g, alpha, beta, name, site);
  gemm_problem p = {};
  p.m = g.m, p.n = g.n, p.k = g.k;
  p.a = gemm_operand(g.a, g.a_type, g.lda, g.transa, g.stride_a);
  p.b = gemm_operand(g.b, g.b_type, g.ldb, g.transb, g.stride_b);
  p.c = gemm_operand(g.c, g.c_type, g.ldc, CUBLAS_OP_N, g.stride_c);
  if (g.by_pointer) {
    p.a.batches = static_cast<void* const*>(g.a);
    p.b.batches = static_cast<void* const*>(g.b);
    p.c.batches = static_cast<void* const*>(g.c);
  }
  p.d = p.c;
  gemm_scales(p, g.handle, alpha, beta);
  gemm_run<Acc>(p, g.batches, g.handle->stream, name, site);
  return CUBLAS_STATUS_SUCCESS;
}

/// The same with types known at run time.
inline cublasStatus_t run_gemm_ex(const blas_gemm& g, const void* alpha, const void* beta,
                                  const char* name, replay_site site) {
  if (!gemm_knows(g.a_type) || !gemm_knows(g.b_type) || !gemm_knows(g.c_type))
    not_in_library("cuBLAS with matrices other than f64, f32, f16 and bf16 is not supported", site);
  if (g.a_type != g.b_type) return CUBLAS_STATUS_NOT_SUPPORTED;
  switch (g.compute) {
    case CUBLAS_COMPUTE_64F:
    case CUBLAS_COMPUTE_64F_PEDANTIC:
      return run_gemm<double>(g, static_cast<const double*>(alpha),
                              static_cast<const double*>(beta), name, site);
    case CUBLAS_COMPUTE_32F:
    case CUBLAS_COMPUTE_32F_PEDANTIC:
    case CUBLAS_COMPUTE_32F_FAST_16F:
    case CUBLAS_COMPUTE_32F_FAST_16BF:
    case CUBLAS_COMPUTE_32F_FAST_TF32:
      return run_gemm<real>(g, static_cast<const real*>(alpha), static_cast<const real*>(beta),
                            name, site);
    default:
      not_in_library("cuBLAS that accumulates in float16 or in integers is not supported", site);
  }
}
/// Old sources name the accumulator by its element type.
inline cublasComputeType_t compute_type(cublasComputeType_t type) { return type; }
inline cublasComputeType_t compute_type(cudaDataType_t type) {
  switch (type) {
    case CUDA_R_32F: return CUBLAS_COMPUTE_32F;
    case CUDA_R_64F: return CUBLAS_COMPUTE_64F;
    case CUDA_R_16F: return CUBLAS_COMPUTE_16F;
    default: return CUBLAS_COMPUTE_32I;
  }
}
}  // namespace replay_rt

#define REPLAY_GEMM(L, TYPE, ELEMENT, COMPUTE)                                                    \
  inline cublasStatus_t cublas##L##gemm(                                                          \
      cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m, int n,    \
      int k, const TYPE* alpha, const TYPE* a, int lda, const TYPE* b, int ldb, const TYPE* beta, \
      TYPE* c, int ldc, REPLAY_SITE_PARAMS) {                                                     \
    return replay_rt::run_gemm<TYPE>({handle, transa, transb, m, n, k, a, ELEMENT, lda, 0, b,     \
                                      ELEMENT, ldb, 0, c, ELEMENT, ldc, 0, 1, false, COMPUTE,     \
                                      CUBLAS_GEMM_DEFAULT},                                       \
                                     alpha, beta, "cublas" #L "gemm", {file, line});              \
  }                                                                                               \
  inline cublasStatus_t cublas##L##gemmStridedBatched(                                            \
      cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m, int n,    \
      int k, const TYPE* alpha, const TYPE* a, int lda, long long stride_a, const TYPE* b,        \
      int ldb, long long stride_b, const TYPE* beta, TYPE* c, int ldc, long long stride_c,        \
      int batches, REPLAY_SITE_PARAMS) {                                                          \
    return replay_rt::run_gemm<TYPE>(                                                             \
        {handle, transa, transb, m, n, k, a, ELEMENT, lda, stride_a, b, ELEMENT, ldb, stride_b,   \
         c, ELEMENT, ldc, stride_c, batches, false, COMPUTE, CUBLAS_GEMM_DEFAULT},                \
        alpha, beta, "cublas" #L "gemmStridedBatched", {file, line});                             \
  }                                                                                               \
  inline cublasStatus_t cublas##L##gemmBatched(                                                   \
      cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m, int n,    \
      int k, const TYPE* alpha, const TYPE* const a[], int lda, const TYPE* const b[], int ldb,   \
      const TYPE* beta, TYPE* const c[], int ldc, int batches, REPLAY_SITE_PARAMS) {              \
    return replay_rt::run_gemm<TYPE>(                                                             \
        {handle, transa, transb, m, n, k, a, ELEMENT, lda, 0, b, ELEMENT, ldb, 0,                 \
         const_cast<TYPE**>(c), ELEMENT, ldc, 0, batches, true, COMPUTE, CUBLAS_GEMM_DEFAULT},    \
        alpha, beta, "cublas" #L "gemmBatched", {file, line});                                    \
  }
REPLAY_GEMM(S, replay_rt::real, CUDA_R_32F, CUBLAS_COMPUTE_32F)
REPLAY_GEMM(D, double, CUDA_R_64F, CUBLAS_COMPUTE_64F)
#undef REPLAY_GEMM

template <class C>
cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t transa,
                            cublasOperation_t transb, int m, int n, int k, const void* alpha,
                            const void* a, cudaDataType_t a_type, int lda, const void* b,
                            cudaDataType_t b_type, int ldb, const void* beta, void* c,
                            cudaDataType_t c_type, int ldc, C compute, cublasGemmAlgo_t algorithm,
                            REPLAY_SITE_PARAMS) {
  return replay_rt::run_gemm_ex({handle, transa, transb, m, n, k, a, a_type, lda, 0, b, b_type,
                                 ldb, 0, c, c_type, ldc, 0, 1, false,
                                 replay_rt::compute_type(compute), algorithm},
                                alpha, beta, "cublasGemmEx", {file, line});
}
template <class C>
cublasStatus_t cublasGemmStridedBatchedEx(
    cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m, int n, int k,
    const void* alpha, const void* a, cudaDataType_t a_type, int lda, long long stride_a,
    const void* b, cudaDataType_t b_type, int ldb, long long stride_b, const void* beta, void* c,
    cudaDataType_t c_type, int ldc, long long stride_c, int batches, C compute,
    cublasGemmAlgo_t algorithm, REPLAY_SITE_PARAMS) {
  return replay_rt::run_gemm_ex({handle, transa, transb, m, n, k, a, a_type, lda, stride_a, b,
                                 b_type, ldb, stride_b, c, c_type, ldc, stride_c, batches, false,
                                 replay_rt::compute_type(compute), algorithm},
                                alpha, beta, "cublasGemmStridedBatchedEx", {file, line});
}
template <class C>
cublasStatus_t cublasGemmBatchedEx(cublasHandle_t handle, cublasOperation_t transa,
                                   cublasOperation_t transb, int m, int n, int k,
                                   const void* alpha, const void* const a[], cudaDataType_t a_type,
                                   int lda, const void* const b[], cudaDataType_t b_type, int ldb,
                                   const void* beta, void* const c[], cudaDataType_t c_type,
                                   int ldc, int batches, C compute,
                                   cublasGemmAlgo_t algorithm, REPLAY_SITE_PARAMS) {
  return replay_rt::run_gemm_ex({handle, transa, transb, m, n, k, a, a_type, lda, 0, b, b_type,
                                 ldb, 0, const_cast<void**>(c), c_type, ldc, 0, batches, true,
                                 replay_rt::compute_type(compute), algorithm},
                                alpha, beta, "cublasGemmBatchedEx", {file, line});
}
inline cublasStatus_t cublasSgemmEx(cublasHandle_t handle, cublasOperation_t transa,
                                    cublasOperation_t transb, int m, int n, int k,
                                    const replay_rt::real* alpha, const void* a,
                                    cudaDataType_t a_type, int lda, const void* b,
                                    cudaDataType_t b_type, int ldb, const replay_rt::real* beta,
                                    void* c, cudaDataType_t c_type, int ldc, REPLAY_SITE_PARAMS) {
  return cublasGemmEx(handle, transa, transb, m, n, k, alpha, a, a_type, lda, b, b_type, ldb, beta,
                      c, c_type, ldc, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT, file, line);
}

namespace replay_rt {
/// A factor on the host or on the device.
template <class T>
struct blas_scalar {
  const T* pointer;
  T value;
  blas_scalar(cublasHandle_t handle, const T* from)
      : pointer(handle->pointer_mode == CUBLAS_POINTER_MODE_DEVICE ? from : nullptr),
        value(pointer ? T(0) : *from) {}
  T get() const { return pointer ? *pointer : value; }
};

/// Has NVIDIA's library answer a call on vectors and a matrix, none of them batched.
template <class T>
cublasStatus_t call_vectors(cublasHandle_t handle, int m, int n, const T* alpha, const T* beta,
                            blas_operand a, blas_operand b, blas_operand c, const char* name,
                            replay_site site, cublasOperation_t operation = CUBLAS_OP_N) {
  const bool on_device = handle->pointer_mode == CUBLAS_POINTER_MODE_DEVICE;
  blas_call call = {};
  call.alpha = blas_factor::of(alpha, on_device), call.beta = blas_factor::of(beta, on_device);
  call.a = a, call.b = b, call.c = c;
  call.m = m, call.n = n, call.operation_a = operation, call.math = handle->math;
  return call_library(call, name, handle->stream, site);
}

/// The operation of a vector function on each element.
enum blas_each { blas_scal, blas_axpy, blas_copy, blas_swap };
template <class T>
void blas_each_kernel(blas_each what, int n, blas_scalar<T> alpha, T* x, int incx, T* y, int incy) {
  const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= n) return;
  T& left = x[(long long)i * incx];
  if (what == blas_scal) {
    left = alpha.get() * left;
    return;
  }
  T& right = y[(long long)i * incy];
  if (what == blas_axpy) right = alpha.get() * left + right;
  if (what == blas_copy) right = left;
  if (what == blas_swap) {
    const T kept = left;
    left = right;
    right = kept;
  }
}
/// Refuses vectors whose elements do not follow one another.
inline void check_steps(int incx, int incy, replay_site site) {
  if (incx < 1 || incy < 1)
    not_in_library("cuBLAS vectors with steps below 1 are not supported", site);
}
/// cuBLAS's checks of a matrix of m rows and n columns, and of two vectors.
inline cublasStatus_t check_matrix(cublasHandle_t handle, int m, int n, int lda, int incx, int incy,
                                   replay_site site) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (m < 0 || n < 0 || lda < (m > 1 ? m : 1) || incx == 0 || incy == 0)
    return CUBLAS_STATUS_INVALID_VALUE;
  check_steps(incx, incy, site);
  return CUBLAS_STATUS_SUCCESS;
}
template <class T>
cublasStatus_t run_each(blas_each what, cublasHandle_t handle, int n, const T* alpha, T* x,
                        int incx, T* y, int incy, const char* name, replay_site site) {
  static const T one = 1;
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  check_steps(incx, incy, site);
  if (n <= 0) return CUBLAS_STATUS_SUCCESS;
  if (has_libraries())
    return call_vectors<T>(handle, 0, n, alpha, nullptr, {x, incx, 0, 0}, {y, incy, 0, 0}, {}, name,
                           site);
  blas_scalar<T> scale(handle, alpha ? alpha : &one);
  if (alpha == nullptr) scale.pointer = nullptr, scale.value = one;
  fixed_kernel<&blas_each_kernel<T>>(&blas_each_kernel<T>, name, site)
      .on(gemm_tiles(n, 256), 256, 0, handle->stream)
      .run(what, n, scale, x, incx, y, incy);
  return CUBLAS_STATUS_SUCCESS;
}

/// Sums over a vector, in its order.
enum blas_sum { blas_dot, blas_nrm2, blas_asum };
template <class T>
void blas_sum_kernel(blas_sum what, int n, const T* x, int incx, const T* y, int incy, T* result) {
  T sum = 0;
  for (long long i = 0; i < n; i++) {
    const T left = x[i * incx];
    if (what == blas_asum) sum += left < 0 ? -left : left;
    else sum += left * (what == blas_dot ? y[i * incy] : left);
  }
  *result = what == blas_nrm2 ? ::sqrt(sum) : sum;
}
template <class T>
cublasStatus_t run_sum(blas_sum what, cublasHandle_t handle, int n, const T* x, int incx,
                       const T* y, int incy, T* result, const char* name, replay_site site) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  check_steps(incx, incy, site);
  const bool on_host = handle->pointer_mode == CUBLAS_POINTER_MODE_HOST;
  T* place = result;
  if (on_host && cudaMalloc(&place, sizeof(T)) != cudaSuccess) return CUBLAS_STATUS_ALLOC_FAILED;
  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
  if (has_libraries())
    status = call_vectors<T>(handle, 0, n, nullptr, nullptr, {x, incx, 0, 0}, {y, incy, 0, 0},
                             {place, 0, 0, 0}, name, site);
  else
    fixed_kernel<&blas_sum_kernel<T>>(&blas_sum_kernel<T>, name, site)
        .on(1, 1, 0, handle->stream)
        .run(what, n, x, incx, y, incy, place);
  if (on_host) {
    cudaStreamSynchronize(handle->stream);
    cudaMemcpy(result, place, sizeof(T), cudaMemcpyDeviceToHost);
    cudaFree(place);
  }
  return status;
}
}  // namespace replay_rt

#define REPLAY_VECTORS(L, TYPE, ELEMENT)                                                          \
  inline cublasStatus_t cublas##L##scal(cublasHandle_t handle, int n, const TYPE* alpha, TYPE* x, \
                                        int incx, REPLAY_SITE_PARAMS) {                           \
    return replay_rt::run_each<TYPE>(replay_rt::blas_scal, handle, n, alpha, x, incx, nullptr, 1, \
                                     "cublas" #L "scal", {file, line});                           \
  }                                                                                               \
  inline cublasStatus_t cublas##L##axpy(cublasHandle_t handle, int n, const TYPE* alpha,          \
                                        const TYPE* x, int incx, TYPE* y, int incy,               \
                                        REPLAY_SITE_PARAMS) {                                     \
    return replay_rt::run_each<TYPE>(replay_rt::blas_axpy, handle, n, alpha,                      \
                                     const_cast<TYPE*>(x), incx, y, incy, "cublas" #L "axpy",     \
                                     {file, line});                                               \
  }                                                                                               \
  inline cublasStatus_t cublas##L##copy(cublasHandle_t handle, int n, const TYPE* x, int incx,    \
                                        TYPE* y, int incy, REPLAY_SITE_PARAMS) {                  \
    return replay_rt::run_each<TYPE>(replay_rt::blas_copy, handle, n, nullptr,                    \
                                     const_cast<TYPE*>(x), incx, y, incy, "cublas" #L "copy",     \
                                     {file, line});                                               \
  }                                                                                               \
  inline cublasStatus_t cublas##L##swap(cublasHandle_t handle, int n, TYPE* x, int incx, TYPE* y, \
                                        int incy, REPLAY_SITE_PARAMS) {                           \
    return replay_rt::run_each<TYPE>(replay_rt::blas_swap, handle, n, nullptr, x, incx, y, incy,  \
                                     "cublas" #L "swap", {file, line});                           \
  }                                                                                               \
  inline cublasStatus_t cublas##L##dot(cublasHandle_t handle, int n, const TYPE* x, int incx,     \
                                       const TYPE* y, int incy, TYPE* result,                     \
                                       REPLAY_SITE_PARAMS) {                                      \
    return replay_rt::run_sum<TYPE>(replay_rt::blas_dot, handle, n, x, incx, y, incy, result,     \
                                    "cublas" #L "dot", {file, line});                             \
  }                                                                                               \
  inline cublasStatus_t cublas##L##nrm2(cublasHandle_t handle, int n, const TYPE* x, int incx,    \
                                        TYPE* result, REPLAY_SITE_PARAMS) {                       \
    return replay_rt::run_sum<TYPE>(replay_rt::blas_nrm2, handle, n, x, incx, x, incx, result,    \
                                    "cublas" #L "nrm2", {file, line});                            \
  }                                                                                               \
  inline cublasStatus_t cublas##L##asum(cublasHandle_t handle, int n, const TYPE* x, int incx,    \
                                        TYPE* result, REPLAY_SITE_PARAMS) {                       \
    return replay_rt::run_sum<TYPE>(replay_rt::blas_asum, handle, n, x, incx, x, incx, result,    \
                                    "cublas" #L "asum", {file, line});                            \
  }                                                                                               \
  /* A product with a matrix of one column, whose rows lie incx and incy apart. */                \
  inline cublasStatus_t cublas##L##gemv(cublasHandle_t handle, cublasOperation_t trans, int m,    \
                                        int n, const TYPE* alpha, const TYPE* a, int lda,         \
                                        const TYPE* x, int incx, const TYPE* beta, TYPE* y,       \
                                        int incy, REPLAY_SITE_PARAMS) {                           \
    const cublasStatus_t status =                                                                 \
        replay_rt::check_matrix(handle, m, n, lda, incx, incy, {file, line});                     \
    if (status != CUBLAS_STATUS_SUCCESS) return status;                                           \
    if (replay_rt::has_libraries())                                                               \
      return replay_rt::call_vectors<TYPE>(handle, m, n, alpha, beta, {a, lda, 0, 0},             \
                                           {x, incx, 0, 0}, {y, incy, 0, 0},                      \
                                           "cublas" #L "gemv", {file, line}, trans);              \
    const bool plain = trans == CUBLAS_OP_N;                                                      \
    replay_rt::gemm_problem p = {};                                                               \
    p.m = plain ? m : n, p.n = 1, p.k = plain ? n : m;                                            \
    p.a = replay_rt::gemm_operand(a, ELEMENT, lda, trans);                                        \
    p.b = {const_cast<TYPE*>(x), ELEMENT, incx, 0, 0, nullptr};                                   \
    p.c = p.d = {y, ELEMENT, incy, 0, 0, nullptr};                                                \
    replay_rt::gemm_scales(p, handle, alpha, beta);                                               \
    replay_rt::gemm_run<TYPE>(p, 1, handle->stream, "cublas" #L "gemv", {file, line});            \
    return CUBLAS_STATUS_SUCCESS;                                                                 \
  }                                                                                               \
  /* A := alpha x y^T + A: a product of depth 1. */                                               \
  inline cublasStatus_t cublas##L##ger(cublasHandle_t handle, int m, int n, const TYPE* alpha,    \
                                       const TYPE* x, int incx, const TYPE* y, int incy, TYPE* a, \
                                       int lda, REPLAY_SITE_PARAMS) {                             \
    const cublasStatus_t status =                                                                 \
        replay_rt::check_matrix(handle, m, n, lda, incx, incy, {file, line});                     \
    if (status != CUBLAS_STATUS_SUCCESS) return status;                                           \
    if (replay_rt::has_libraries())                                                               \
      return replay_rt::call_vectors<TYPE>(handle, m, n, alpha, nullptr, {x, incx, 0, 0},         \
                                           {y, incy, 0, 0}, {a, lda, 0, 0},                       \
                                           "cublas" #L "ger", {file, line});                      \
    replay_rt::gemm_problem p = {};                                                               \
    p.m = m, p.n = n, p.k = 1;                                                                    \
    p.a = {const_cast<TYPE*>(x), ELEMENT, incx, 0, 0, nullptr};                                   \
    p.b = {const_cast<TYPE*>(y), ELEMENT, 0, incy, 0, nullptr};                                   \
    p.c = p.d = replay_rt::gemm_operand(a, ELEMENT, lda, CUBLAS_OP_N);                            \
    replay_rt::gemm_scales(p, handle, alpha, alpha);                                              \
    p.beta = nullptr, p.beta_value = 1;                                                           \
    replay_rt::gemm_run<TYPE>(p, 1, handle->stream, "cublas" #L "ger", {file, line});             \
    return CUBLAS_STATUS_SUCCESS;                                                                 \
  }
REPLAY_VECTORS(S, replay_rt::real, CUDA_R_32F)
REPLAY_VECTORS(D, double, CUDA_R_64F)
#undef REPLAY_VECTORS
