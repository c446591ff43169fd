// Products of matrices by cuBLAS and cuBLASLt, one for each value of `which`.
#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <stdio.h>
#define cublasCheck(status) { cublas_check((status), __FILE__, __LINE__); }
static void cublas_check(cublasStatus_t status, const char* file, int line) {
  if (status != CUBLAS_STATUS_SUCCESS) {
    printf("%s:%d: %s\n", file, line, cublasGetStatusString(status));
    exit(EXIT_FAILURE);
  }
}
__global__ void narrow(__nv_bfloat16* out, const float* in, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = (__nv_bfloat16)in[i];
}
__global__ void widen(float* out, const __nv_bfloat16* in, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = (float)in[i];
}
__global__ void pointers(float** list, float* data, int step, int count) {
  if (threadIdx.x < count) list[threadIdx.x] = data + threadIdx.x * step;
}
// Epilogues with sizes that NVIDIA's library takes: leading dimensions are multiples of 8.
static const cublasLtEpilogue_t epilogues[] = {
    CUBLASLT_EPILOGUE_GELU_AUX_BIAS, CUBLASLT_EPILOGUE_DGELU,  CUBLASLT_EPILOGUE_BGRADB,
    CUBLASLT_EPILOGUE_RELU_BIAS,     CUBLASLT_EPILOGUE_BGRADA, CUBLASLT_EPILOGUE_DGELU_BGRAD,
    CUBLASLT_EPILOGUE_BIAS,          CUBLASLT_EPILOGUE_GELU_BIAS};
static void multiply(cublasLtEpilogue_t epilogue, int m, int n, int k, int lda, int ldb, int ldc,
                     cublasComputeType_t compute, cudaDataType_t type, const void* a, const void* b,
                     const float* factors, void* bias, void* aux, void* out) {
  cublasLtHandle_t lt;
  cublasLtMatmulDesc_t desc;
  cublasLtMatrixLayout_t la, lb, lc;
  cublasLtMatmulPreference_t preference;
  cublasLtMatmulHeuristicResult_t heuristic;
  int found = 0;
  cublasCheck(cublasLtCreate(&lt));
  cublasCheck(cublasLtMatmulDescCreate(&desc, compute, CUDA_R_32F));
  int64_t aux_ld = ldc;
  cublasOperation_t ta = CUBLAS_OP_T;
  cublasCheck(cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_TRANSA, &ta, sizeof(ta)));
  cublasCheck(cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof(epilogue)));
  if (bias != NULL) {
    cublasCheck(cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof(bias)));
  }
  cublasCheck(cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &aux, sizeof(aux)));
  cublasCheck(cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &aux_ld, sizeof(aux_ld)));
  cublasCheck(cublasLtMatrixLayoutCreate(&la, type, k, m, lda));
  cublasCheck(cublasLtMatrixLayoutCreate(&lb, type, k, n, ldb));
  cublasCheck(cublasLtMatrixLayoutCreate(&lc, type, m, n, ldc));
  cublasCheck(cublasLtMatmulPreferenceCreate(&preference));
  cublasCheck(cublasLtMatmulAlgoGetHeuristic(lt, desc, la, lb, lc, lc, preference, 1, &heuristic, &found));
  void* workspace;
  size_t bytes = 4 << 20;
  cudaMalloc(&workspace, bytes);
  cublasCheck(cublasLtMatmul(lt, desc, factors, a, la, b, lb, factors + 1, out, lc, out, lc, &heuristic.algo, workspace, bytes, 0));
  cudaFree(workspace);
  cublasCheck(cublasLtMatmulPreferenceDestroy(preference));
  cublasCheck(cublasLtMatmulDescDestroy(desc));
  cublasCheck(cublasLtMatrixLayoutDestroy(la));
  cublasCheck(cublasLtMatrixLayoutDestroy(lb));
  cublasCheck(cublasLtMatrixLayoutDestroy(lc));
  cublasCheck(cublasLtDestroy(lt));
}
// a is [73, 150], b is [150, 151], out is [73, 19] by columns, each a part of its buffer.
void run(int which, const float* a, const float* b, float* bias, float* out, float* extra) {
  const int m = 70, n = 19, k = 131, lda = 150, ldb = 151, ldc = 73;
  const float alpha = 0.5f, beta = 0.25f, one = 1.0f, zero = 0.0f;
  cublasHandle_t handle;
  cublasCheck(cublasCreate(&handle));
  cublasCheck(cublasSetMathMode(handle, CUBLAS_DEFAULT_MATH));
  cublasOperation_t ta = which & 1 ? CUBLAS_OP_T : CUBLAS_OP_N;
  cublasOperation_t tb = which & 2 ? CUBLAS_OP_T : CUBLAS_OP_N;
  cudaMemcpy(out, bias, 73 * 19 * sizeof(float), cudaMemcpyDeviceToDevice);
  cudaMemset(extra, 0, 73 * 19 * sizeof(float));
  if (which < 4) {
    cublasCheck(cublasSgemm(handle, ta, tb, m, n, k, &alpha, a, lda, b, ldb, &beta, out, ldc));
  } else if (which == 4) {  // in bfloat16, with a result in float
    __nv_bfloat16 *a16, *b16;
    cudaMalloc(&a16, 150 * 150 * sizeof(__nv_bfloat16));
    cudaMalloc(&b16, 150 * 151 * sizeof(__nv_bfloat16));
    narrow<<<100, 256>>>(a16, a, 150 * 150);
    narrow<<<100, 256>>>(b16, b, 150 * 151);
    cublasCheck(cublasGemmEx(handle, ta, tb, m, n, k, &alpha, a16, CUDA_R_16BF, lda, b16,
                             CUDA_R_16BF, ldb, &beta, out, CUDA_R_32F, ldc, CUBLAS_COMPUTE_32F,
                             CUBLAS_GEMM_DEFAULT));
  } else if (which == 5) {  // three products of [20, 5] and [5, 6]
    cublasCheck(cublasSgemmStridedBatched(handle, CUBLAS_OP_N, CUBLAS_OP_N, 20, 6, 5, &one, a, 20,
                                          100, b, 5, 30, &zero, out, 20, 120, 3));
  } else if (which == 6) {  // the same through pointers
    float **x, **y, **z;
    cudaMalloc(&x, 3 * sizeof(float*));
    cudaMalloc(&y, 3 * sizeof(float*));
    cudaMalloc(&z, 3 * sizeof(float*));
    pointers<<<1, 32>>>(x, (float*)a, 100, 3);
    pointers<<<1, 32>>>(y, (float*)b, 30, 3);
    pointers<<<1, 32>>>(z, out, 120, 3);
    cublasCheck(cublasSgemmBatched(handle, CUBLAS_OP_N, CUBLAS_OP_N, 20, 6, 5, &one, x, 20, y, 5,
                                   &zero, z, 20, 3));
  } else if (which == 7) {  // vectors
    float result;
    cublasCheck(cublasSgemv(handle, CUBLAS_OP_T, 150, m, &alpha, a, lda, b, 1, &zero, out, 1));
    cublasCheck(cublasSaxpy(handle, m, &alpha, a, 1, out, 1));
    cublasCheck(cublasSscal(handle, m, &alpha, out, 1));
    cublasCheck(cublasSdot(handle, 150, a, 1, b, 1, &result));
    cudaMemcpy(extra, &result, sizeof(float), cudaMemcpyHostToDevice);
    cublasCheck(cublasSnrm2(handle, 150, a, 1, &result));
    cudaMemcpy(extra + 1, &result, sizeof(float), cudaMemcpyHostToDevice);
    cublasCheck(cublasSetPointerMode(handle, CUBLAS_POINTER_MODE_DEVICE));
    cublasCheck(cublasSger(handle, 2, 2, extra, a, 1, b, 1, extra + 2, 2));
  } else {
    const float factors[2] = {alpha, zero};
    const bool reads_aux = epilogues[which % 8] == CUBLASLT_EPILOGUE_DGELU ||
                           epilogues[which % 8] == CUBLASLT_EPILOGUE_DGELU_BGRAD;
    const bool writes_bias = which % 8 == 2 || which % 8 == 4 || which % 8 == 5;
    float* aux = reads_aux ? bias : extra;
    float* vector = writes_bias ? extra : which % 8 == 1 ? NULL : bias;
    if (which < 16) {
      multiply(epilogues[which % 8], m, n, k, lda, ldb, ldc, CUBLAS_COMPUTE_32F_FAST_TF32, CUDA_R_32F,
               a, b, factors, vector, aux, out);
    } else if (which < 24) {
      multiply(epilogues[which % 8], 64, 16, 128, 128, 128, 64, CUBLAS_COMPUTE_32F, CUDA_R_32F, a, b,
               factors, vector, aux, out);
    } else {  // in bfloat16 throughout
      __nv_bfloat16 *a16, *b16, *bias16, *out16;
      cudaMalloc(&a16, 128 * 64 * sizeof(__nv_bfloat16));
      cudaMalloc(&b16, 128 * 16 * sizeof(__nv_bfloat16));
      cudaMalloc(&bias16, 64 * sizeof(__nv_bfloat16));
      cudaMalloc(&out16, 64 * 16 * sizeof(__nv_bfloat16));
      narrow<<<64, 128>>>(a16, a, 128 * 64);
      narrow<<<16, 128>>>(b16, b, 128 * 16);
      narrow<<<1, 128>>>(bias16, bias, 64);
      multiply(epilogues[which % 8], 64, 16, 128, 128, 128, 64, CUBLAS_COMPUTE_32F, CUDA_R_16BF, a16,
               b16, factors, bias16, nullptr, out16);
      widen<<<8, 128>>>(out, out16, 64 * 16);
    }
  }
  cublasCheck(cublasDestroy(handle));
}
