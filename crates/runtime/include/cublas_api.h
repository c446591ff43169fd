// The types and the context of cuBLAS. cuBLAS Library: "cuBLAS Datatypes Reference", "cuBLAS Helper
// Function Reference".
#pragma once

#include "cuda_runtime.h"
#include "library_types.h"

#define CUBLAS_VER_MAJOR 12
#define CUBLAS_VER_MINOR 8
#define CUBLAS_VER_PATCH 0
#define CUBLAS_VERSION 120800

enum cublasStatus_t {
  CUBLAS_STATUS_SUCCESS = 0,
  CUBLAS_STATUS_NOT_INITIALIZED = 1,
  CUBLAS_STATUS_ALLOC_FAILED = 3,
  CUBLAS_STATUS_INVALID_VALUE = 7,
  CUBLAS_STATUS_ARCH_MISMATCH = 8,
  CUBLAS_STATUS_MAPPING_ERROR = 11,
  CUBLAS_STATUS_EXECUTION_FAILED = 13,
  CUBLAS_STATUS_INTERNAL_ERROR = 14,
  CUBLAS_STATUS_NOT_SUPPORTED = 15,
  CUBLAS_STATUS_LICENSE_ERROR = 16,
};
enum cublasOperation_t {
  CUBLAS_OP_N = 0,
  CUBLAS_OP_T = 1,
  CUBLAS_OP_C = 2,
  CUBLAS_OP_HERMITAN = 2,
  CUBLAS_OP_CONJG = 3,
};
enum cublasFillMode_t { CUBLAS_FILL_MODE_LOWER = 0, CUBLAS_FILL_MODE_UPPER = 1 };
enum cublasDiagType_t { CUBLAS_DIAG_NON_UNIT = 0, CUBLAS_DIAG_UNIT = 1 };
enum cublasSideMode_t { CUBLAS_SIDE_LEFT = 0, CUBLAS_SIDE_RIGHT = 1 };
enum cublasPointerMode_t { CUBLAS_POINTER_MODE_HOST = 0, CUBLAS_POINTER_MODE_DEVICE = 1 };
enum cublasAtomicsMode_t { CUBLAS_ATOMICS_NOT_ALLOWED = 0, CUBLAS_ATOMICS_ALLOWED = 1 };
enum cublasMath_t {
  CUBLAS_DEFAULT_MATH = 0,
  CUBLAS_TENSOR_OP_MATH = 1,
  CUBLAS_PEDANTIC_MATH = 2,
  CUBLAS_TF32_TENSOR_OP_MATH = 3,
  CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION = 16,
};
enum cublasComputeType_t {
  CUBLAS_COMPUTE_16F = 64,
  CUBLAS_COMPUTE_16F_PEDANTIC = 65,
  CUBLAS_COMPUTE_32F = 68,
  CUBLAS_COMPUTE_32F_PEDANTIC = 69,
  CUBLAS_COMPUTE_64F = 70,
  CUBLAS_COMPUTE_64F_PEDANTIC = 71,
  CUBLAS_COMPUTE_32I = 72,
  CUBLAS_COMPUTE_32I_PEDANTIC = 73,
  CUBLAS_COMPUTE_32F_FAST_16F = 74,
  CUBLAS_COMPUTE_32F_FAST_16BF = 75,
  CUBLAS_COMPUTE_32F_FAST_TF32 = 77,
};
// A number of an algorithm has no meaning here: there is one order of summation.
enum cublasGemmAlgo_t : int {
  CUBLAS_GEMM_DFALT = -1,
  CUBLAS_GEMM_DEFAULT = -1,
  CUBLAS_GEMM_ALGO0 = 0,
  CUBLAS_GEMM_ALGO23 = 23,
  CUBLAS_GEMM_DEFAULT_TENSOR_OP = 99,
  CUBLAS_GEMM_DFALT_TENSOR_OP = 99,
  CUBLAS_GEMM_ALGO0_TENSOR_OP = 100,
  CUBLAS_GEMM_ALGO15_TENSOR_OP = 115,
};
typedef cudaDataType cublasDataType_t;

struct cublasContext {
  cudaStream_t stream = nullptr;
  cublasPointerMode_t pointer_mode = CUBLAS_POINTER_MODE_HOST;
  cublasMath_t math = CUBLAS_DEFAULT_MATH;
  cublasAtomicsMode_t atomics = CUBLAS_ATOMICS_NOT_ALLOWED;
};
typedef cublasContext* cublasHandle_t;

inline cublasStatus_t cublasCreate(cublasHandle_t* handle) {
  return *handle = new cublasContext, CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasDestroy(cublasHandle_t handle) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  return delete handle, CUBLAS_STATUS_SUCCESS;
}

#define REPLAY_CUBLAS_PROPERTY(NAME, TYPE, FIELD)                                    \
  inline cublasStatus_t cublasSet##NAME(cublasHandle_t handle, TYPE value) {         \
    if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;                     \
    return handle->FIELD = value, CUBLAS_STATUS_SUCCESS;                             \
  }                                                                                  \
  inline cublasStatus_t cublasGet##NAME(cublasHandle_t handle, TYPE* value) {        \
    if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;                     \
    return *value = handle->FIELD, CUBLAS_STATUS_SUCCESS;                            \
  }
REPLAY_CUBLAS_PROPERTY(Stream, cudaStream_t, stream)
REPLAY_CUBLAS_PROPERTY(PointerMode, cublasPointerMode_t, pointer_mode)
REPLAY_CUBLAS_PROPERTY(MathMode, cublasMath_t, math)
REPLAY_CUBLAS_PROPERTY(AtomicsMode, cublasAtomicsMode_t, atomics)
#undef REPLAY_CUBLAS_PROPERTY

inline cublasStatus_t cublasSetWorkspace(cublasHandle_t handle, void*, size_t) {
  return handle == nullptr ? CUBLAS_STATUS_NOT_INITIALIZED : CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasGetVersion(cublasHandle_t, int* version) {
  return *version = CUBLAS_VERSION, CUBLAS_STATUS_SUCCESS;
}

inline const char* cublasGetStatusName(cublasStatus_t status) {
#define REPLAY_CUBLAS_NAME(name) \
  if (status == name) return #name;
  REPLAY_CUBLAS_NAME(CUBLAS_STATUS_SUCCESS)
  REPLAY_CUBLAS_NAME(CUBLAS_STATUS_NOT_INITIALIZED)
  REPLAY_CUBLAS_NAME(CUBLAS_STATUS_ALLOC_FAILED)
  REPLAY_CUBLAS_NAME(CUBLAS_STATUS_INVALID_VALUE)
  REPLAY_CUBLAS_NAME(CUBLAS_STATUS_ARCH_MISMATCH)
  REPLAY_CUBLAS_NAME(CUBLAS_STATUS_MAPPING_ERROR)
  REPLAY_CUBLAS_NAME(CUBLAS_STATUS_EXECUTION_FAILED)
  REPLAY_CUBLAS_NAME(CUBLAS_STATUS_INTERNAL_ERROR)
  REPLAY_CUBLAS_NAME(CUBLAS_STATUS_NOT_SUPPORTED)
  REPLAY_CUBLAS_NAME(CUBLAS_STATUS_LICENSE_ERROR)
#undef REPLAY_CUBLAS_NAME
  return "CUBLAS_STATUS_UNKNOWN";
}
inline const char* cublasGetStatusString(cublasStatus_t status) {
  return cublasGetStatusName(status);
}
