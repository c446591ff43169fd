// cuBLASLt: one product of matrices with an epilogue. On the CPU it is computed here, on a GPU by
// NVIDIA's library.
// cuBLAS Library: "Using the cuBLASLt API".
#pragma once

#include "cublas_api.h"
#include "replay/blas_call.h"
#include "replay/gemm.h"

typedef struct cublasLtContext* cublasLtHandle_t;
// A handle of cuBLAS is one of cuBLASLt too.
struct cublasLtContext : cublasContext {};

struct cublasLtMatmulAlgo_t {
  uint64_t data[8];
};
enum cublasLtEpilogue_t {
  CUBLASLT_EPILOGUE_DEFAULT = 1,
  CUBLASLT_EPILOGUE_RELU = 2,
  CUBLASLT_EPILOGUE_BIAS = 4,
  CUBLASLT_EPILOGUE_RELU_BIAS = 6,
  CUBLASLT_EPILOGUE_GELU = 32,
  CUBLASLT_EPILOGUE_GELU_BIAS = 36,
  CUBLASLT_EPILOGUE_RELU_AUX = 130,
  CUBLASLT_EPILOGUE_RELU_AUX_BIAS = 134,
  CUBLASLT_EPILOGUE_DRELU = 136,
  CUBLASLT_EPILOGUE_DRELU_BGRAD = 152,
  CUBLASLT_EPILOGUE_GELU_AUX = 160,
  CUBLASLT_EPILOGUE_GELU_AUX_BIAS = 164,
  CUBLASLT_EPILOGUE_DGELU = 192,
  CUBLASLT_EPILOGUE_DGELU_BGRAD = 208,
  CUBLASLT_EPILOGUE_BGRADA = 256,
  CUBLASLT_EPILOGUE_BGRADB = 512,
};
enum cublasLtMatmulDescAttributes_t {
  CUBLASLT_MATMUL_DESC_COMPUTE_TYPE = 0,
  CUBLASLT_MATMUL_DESC_SCALE_TYPE = 1,
  CUBLASLT_MATMUL_DESC_POINTER_MODE = 2,
  CUBLASLT_MATMUL_DESC_TRANSA = 3,
  CUBLASLT_MATMUL_DESC_TRANSB = 4,
  CUBLASLT_MATMUL_DESC_TRANSC = 5,
  CUBLASLT_MATMUL_DESC_FILL_MODE = 6,
  CUBLASLT_MATMUL_DESC_EPILOGUE = 7,
  CUBLASLT_MATMUL_DESC_BIAS_POINTER = 8,
  CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE = 10,
  CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER = 11,
  CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD = 12,
  CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE = 13,
  CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET = 15,
  CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE = 22,
  CUBLASLT_MATMUL_DESC_FAST_ACCUM = 25,
  CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE = 26,
};
enum cublasLtMatrixLayoutAttribute_t {
  CUBLASLT_MATRIX_LAYOUT_TYPE = 0,
  CUBLASLT_MATRIX_LAYOUT_ORDER = 1,
  CUBLASLT_MATRIX_LAYOUT_ROWS = 2,
  CUBLASLT_MATRIX_LAYOUT_COLS = 3,
  CUBLASLT_MATRIX_LAYOUT_LD = 4,
  CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT = 5,
  CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET = 6,
};
enum cublasLtOrder_t { CUBLASLT_ORDER_COL = 0, CUBLASLT_ORDER_ROW = 1 };
enum cublasLtPointerMode_t {
  CUBLASLT_POINTER_MODE_HOST = 0,
  CUBLASLT_POINTER_MODE_DEVICE = 1,
};
enum cublasLtMatmulPreferenceAttributes_t {
  CUBLASLT_MATMUL_PREF_SEARCH_MODE = 0,
  CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES = 1,
  CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK = 3,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES = 5,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES = 6,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES = 7,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES = 8,
};

struct cublasLtMatmulDescOpaque_t {
  cublasComputeType_t compute;
  cudaDataType_t scale;
  int32_t pointer_mode, transa, transb;
  uint32_t epilogue;
  const void* bias;
  int32_t bias_type;  // below 0: that of D
  void* auxiliary;
  int64_t auxiliary_ld, auxiliary_step;
  int32_t auxiliary_type;
};
struct cublasLtMatrixLayoutOpaque_t {
  uint32_t type;
  int32_t order;
  uint64_t rows, columns;
  int64_t ld;
  int32_t batches;
  int64_t batch_step;
};
struct cublasLtMatmulPreferenceOpaque_t {
  uint64_t workspace_bytes;
};
typedef cublasLtMatmulDescOpaque_t* cublasLtMatmulDesc_t;
typedef cublasLtMatrixLayoutOpaque_t* cublasLtMatrixLayout_t;
typedef cublasLtMatmulPreferenceOpaque_t* cublasLtMatmulPreference_t;

struct cublasLtMatmulHeuristicResult_t {
  cublasLtMatmulAlgo_t algo;
  size_t workspaceSize;
  cublasStatus_t state;
  float wavesCount;
  int reserved[4];
};

inline cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  return *handle = new cublasLtContext, CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  return delete handle, CUBLAS_STATUS_SUCCESS;
}
inline size_t cublasLtGetVersion() { return CUBLAS_VERSION; }

inline cublasStatus_t cublasLtMatmulDescInit(cublasLtMatmulDesc_t desc,
                                             cublasComputeType_t compute, cudaDataType_t scale) {
  *desc = {compute, scale, 0, CUBLAS_OP_N, CUBLAS_OP_N, CUBLASLT_EPILOGUE_DEFAULT,
           nullptr, -1, nullptr, 0, 0, -1};
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* desc,
                                               cublasComputeType_t compute,
                                               cudaDataType_t scale) {
  return cublasLtMatmulDescInit(*desc = new cublasLtMatmulDescOpaque_t, compute, scale);
}
inline cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) {
  return delete desc, CUBLAS_STATUS_SUCCESS;
}

namespace replay_rt {
/// Reads an attribute, given by its address and size.
template <class T>
cublasStatus_t lt_read(T& field, const void* value, size_t bytes) {
  if (value == nullptr || bytes != sizeof(T)) return CUBLAS_STATUS_INVALID_VALUE;
  __builtin_memcpy(&field, value, sizeof(T));
  return CUBLAS_STATUS_SUCCESS;
}
}  // namespace replay_rt

inline cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                                     cublasLtMatmulDescAttributes_t attribute,
                                                     const void* value, size_t bytes,
                                                     REPLAY_SITE_PARAMS) {
  using replay_rt::lt_read;
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_COMPUTE_TYPE: return lt_read(desc->compute, value, bytes);
    case CUBLASLT_MATMUL_DESC_SCALE_TYPE: return lt_read(desc->scale, value, bytes);
    case CUBLASLT_MATMUL_DESC_POINTER_MODE: return lt_read(desc->pointer_mode, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSA: return lt_read(desc->transa, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB: return lt_read(desc->transb, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE: return lt_read(desc->epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: return lt_read(desc->bias, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE: return lt_read(desc->bias_type, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER: return lt_read(desc->auxiliary, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD: return lt_read(desc->auxiliary_ld, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE:
      return lt_read(desc->auxiliary_step, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE:
      return lt_read(desc->auxiliary_type, value, bytes);
    // They choose among ways to the same result.
    case CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET:
    case CUBLASLT_MATMUL_DESC_FAST_ACCUM: return CUBLAS_STATUS_SUCCESS;
    default: break;
  }
  replay_rt::not_in_library("this attribute of a cuBLASLt operation is not supported",
                            {file, line});
}

inline cublasStatus_t cublasLtMatrixLayoutInit(cublasLtMatrixLayout_t layout, cudaDataType type,
                                               uint64_t rows, uint64_t columns, int64_t ld) {
  *layout = {(uint32_t)type, CUBLASLT_ORDER_COL, rows, columns, ld, 1, 0};
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type,
                                                 uint64_t rows, uint64_t columns, int64_t ld) {
  return cublasLtMatrixLayoutInit(*layout = new cublasLtMatrixLayoutOpaque_t, type, rows, columns,
                                  ld);
}
inline cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  return delete layout, CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                       cublasLtMatrixLayoutAttribute_t attribute,
                                                       const void* value, size_t bytes,
                                                       REPLAY_SITE_PARAMS) {
  using replay_rt::lt_read;
  switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_TYPE: return lt_read(layout->type, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_ORDER: return lt_read(layout->order, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_ROWS: return lt_read(layout->rows, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_COLS: return lt_read(layout->columns, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_LD: return lt_read(layout->ld, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT: return lt_read(layout->batches, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
      return lt_read(layout->batch_step, value, bytes);
  }
  replay_rt::not_in_library("this attribute of a cuBLASLt matrix is not supported", {file, line});
}

inline cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  return *preference = new cublasLtMatmulPreferenceOpaque_t{}, CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  return delete preference, CUBLAS_STATUS_SUCCESS;
}
// Preferences choose among algorithms. The CPU has one, and it needs no workspace; on a GPU the product
// itself asks for one, with the given workspace.
inline cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t,
                                                           cublasLtMatmulPreferenceAttributes_t,
                                                           const void*, size_t) {
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
    cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatmulPreference_t, int asked,
    cublasLtMatmulHeuristicResult_t results[], int* found) {
  if (asked < 1) return CUBLAS_STATUS_INVALID_VALUE;
  results[0] = {};
  return *found = 1, CUBLAS_STATUS_SUCCESS;
}

namespace replay_rt {
inline gemm_matrix lt_matrix(const void* data, cublasLtMatrixLayout_t layout,
                             int32_t operation = CUBLAS_OP_N) {
  const bool by_rows = layout->order == CUBLASLT_ORDER_ROW;
  const bool exchanged = (operation != CUBLAS_OP_N) != by_rows;
  return gemm_operand(data, (cudaDataType_t)layout->type, layout->ld,
                      exchanged ? CUBLAS_OP_T : CUBLAS_OP_N, layout->batch_step);
}
inline bool lt_fits(cublasLtMatrixLayout_t layout) {
  return layout->ld >= (int64_t)(layout->order == CUBLASLT_ORDER_ROW ? layout->columns : layout->rows);
}

/// The bits of an epilogue. cuBLAS Library: "cublasLtEpilogue_t".
enum lt_epilogue : uint32_t {
  lt_relu = 2, lt_bias = 4, lt_gradient = 8, lt_bias_gradient = 16, lt_gelu = 32,
  lt_gelu_gradient = 64, lt_auxiliary = 128, lt_left_gradient = 256, lt_right_gradient = 512,
};

template <class Acc>
cublasStatus_t lt_run(gemm_problem p, cublasLtMatmulDesc_t desc, int batches, cudaStream_t stream,
                      replay_site site) {
  const cudaDataType_t bias_type =
      desc->bias_type < 0 ? p.d.type : (cudaDataType_t)desc->bias_type;
  const uint32_t what = desc->epilogue;
  gemm_epilogue& e = p.epilogue;
  e.relu = what & lt_relu;
  e.gelu = what & lt_gelu;
  e.gelu_gradient = what & lt_gelu_gradient;
  e.bias = what & lt_bias ? desc->bias : nullptr;
  e.bias_type = bias_type;
  if (what & lt_auxiliary) {
    const cudaDataType_t type =
        desc->auxiliary_type < 0 ? p.d.type : (cudaDataType_t)desc->auxiliary_type;
    if (desc->auxiliary == nullptr || desc->auxiliary_ld < p.m) return CUBLAS_STATUS_INVALID_VALUE;
    e.auxiliary = gemm_operand(desc->auxiliary, type, desc->auxiliary_ld, CUBLAS_OP_N,
                               desc->auxiliary_step);
  }
  gemm_run<Acc>(p, batches, stream, "cublasLtMatmul", site);
  auto sums = [&](const gemm_matrix& matrix, int rows, int columns) {
    if (batches != 1 || rows == 0) return;
    fixed_kernel<&gemm_row_sums<Acc>>(&gemm_row_sums<Acc>, "cublasLtMatmul", site)
        .on(gemm_tiles(rows, 256), 256, 0, stream)
        .run(matrix, rows, columns, const_cast<void*>(desc->bias), bias_type);
  };
  if (what & lt_bias_gradient) sums(p.d, p.m, p.n);
  if (what & lt_left_gradient) sums(p.a, p.m, p.k);
  gemm_matrix turned = p.b;
  turned.row_step = p.b.column_step, turned.column_step = p.b.row_step;
  if (what & lt_right_gradient) sums(turned, p.n, p.k);
  return CUBLAS_STATUS_SUCCESS;
}

/// Refuses documented uses of cuBLASLt not supported here.
inline void lt_check(cublasLtMatmulDesc_t desc, const gemm_problem& p, int batches,
                     replay_site site) {
  switch (desc->epilogue) {
    case CUBLASLT_EPILOGUE_DEFAULT:
    case CUBLASLT_EPILOGUE_RELU:
    case CUBLASLT_EPILOGUE_BIAS:
    case CUBLASLT_EPILOGUE_RELU_BIAS:
    case CUBLASLT_EPILOGUE_GELU:
    case CUBLASLT_EPILOGUE_GELU_BIAS:
    case CUBLASLT_EPILOGUE_GELU_AUX:
    case CUBLASLT_EPILOGUE_GELU_AUX_BIAS:
    case CUBLASLT_EPILOGUE_DGELU: break;
    case CUBLASLT_EPILOGUE_DGELU_BGRAD:
    case CUBLASLT_EPILOGUE_BGRADA:
    case CUBLASLT_EPILOGUE_BGRADB:
      if (batches == 1) break;
      not_in_library("cuBLASLt's bias gradients of a batch are not supported", site);
    default: not_in_library("this epilogue of cuBLASLt is not supported", site);
  }
  for (const gemm_matrix* matrix : {&p.a, &p.b, &p.c, &p.d})
    if (!gemm_knows(matrix->type))
      not_in_library("cuBLASLt with matrices other than f64, f32, f16 and bf16 is not supported",
                     site);
}
/// A product for NVIDIA's library. src/gpu/blas.rs has the same fields.
struct lt_call {
  int32_t* status;
  blas_factor alpha, beta;
  const void *a, *b, *c;
  void* d;
  cublasLtMatmulDescOpaque_t desc;
  cublasLtMatrixLayoutOpaque_t a_layout, b_layout, c_layout, d_layout;
  void* workspace;
  size_t workspace_bytes;
};
}  // namespace replay_rt

inline cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                     const void* alpha, const void* a, cublasLtMatrixLayout_t a_layout,
                                     const void* b, cublasLtMatrixLayout_t b_layout,
                                     const void* beta, const void* c, cublasLtMatrixLayout_t c_layout,
                                     void* d, cublasLtMatrixLayout_t d_layout,
                                     const cublasLtMatmulAlgo_t*, void* workspace,
                                     size_t workspace_bytes, cudaStream_t stream, REPLAY_SITE_PARAMS) {
  using namespace replay_rt;
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  for (auto layout : {a_layout, b_layout, c_layout, d_layout})
    if (!lt_fits(layout)) return CUBLAS_STATUS_INVALID_VALUE;
  const bool plain_a = desc->transa == CUBLAS_OP_N, plain_b = desc->transb == CUBLAS_OP_N;
  const uint64_t rows = plain_a ? a_layout->rows : a_layout->columns;
  const uint64_t depth = plain_a ? a_layout->columns : a_layout->rows;
  const uint64_t columns = plain_b ? b_layout->columns : b_layout->rows;
  const bool fits = rows == d_layout->rows && columns == d_layout->columns &&
                    depth == (plain_b ? b_layout->rows : b_layout->columns) &&
                    c_layout->rows == rows && c_layout->columns == columns;
  if (!fits) return CUBLAS_STATUS_INVALID_VALUE;
  gemm_problem p = {};
  p.m = (int)rows, p.n = (int)columns, p.k = (int)depth;
  p.a = lt_matrix(a, a_layout, desc->transa);
  p.b = lt_matrix(b, b_layout, desc->transb);
  p.c = lt_matrix(c, c_layout);
  p.d = lt_matrix(d, d_layout);
  lt_check(desc, p, d_layout->batches, {file, line});
  const bool on_device = desc->pointer_mode == CUBLASLT_POINTER_MODE_DEVICE;
  const bool wide = desc->scale == CUDA_R_64F;
  if (!wide && desc->scale != CUDA_R_32F)
    not_in_library("cuBLASLt that accumulates in float16 or in integers is not supported",
                   {file, line});
  if (has_libraries()) {
    auto factor = [&](const void* from) {
      return wide ? blas_factor::of(static_cast<const double*>(from), on_device)
                  : blas_factor::of(static_cast<const real*>(from), on_device);
    };
    const lt_call call = {nullptr, factor(alpha), factor(beta), a, b, c, d, *desc, *a_layout,
                          *b_layout, *c_layout, *d_layout, workspace, workspace_bytes};
    return call_library(call, "cublasLtMatmul", stream, {file, line});
  }
  auto scale = [&](const void* value) {
    return wide ? *static_cast<const double*>(value) : (double)*static_cast<const real*>(value);
  };
  p.alpha = on_device ? alpha : nullptr;
  p.beta = on_device ? beta : nullptr;
  p.alpha_value = on_device ? 0 : scale(alpha);
  p.beta_value = on_device ? 0 : scale(beta);
  return wide ? lt_run<double>(p, desc, d_layout->batches, stream, {file, line})
              : lt_run<real>(p, desc, d_layout->batches, stream, {file, line});
}
