// The product of matrices behind cuBLAS and cuBLASLt, as kernels of this device.
//
// Each element is a sum of products in the order of `k`, each product and each sum rounded once in the
// type of the accumulator: one order on every machine and for every shape. A library with kernels for each
// processor would give each machine bits of its own, and would not follow a replay's
// rounding. Matrices are stored by columns, as in cuBLAS.
#pragma once

#include "cuda_bf16.h"
#include "cuda_fp16.h"
#include "cublas_api.h"
#include "replay/launch.h"

namespace replay_rt {

/// Ends the replay: this use of a library is not supported here.
[[noreturn]] inline void not_in_library(const char* why, replay_site site) {
  abi->device_abort(why, site);
}

/// One of the matrices of a product.
struct gemm_matrix {
  void* data;
  cudaDataType_t type;
  long long row_step, column_step, batch_step;
  void* const* batches;  // the matrices of a batch, on the device; null where `batch_step` leads to them
};

/// The last operations on each element of the product.
struct gemm_epilogue {
  bool relu, gelu, gelu_gradient;
  const void* bias;       // an element for each row; null without
  cudaDataType_t bias_type;
  gemm_matrix auxiliary;  // what GELU is taken of: written by `gelu`, read by `gelu_gradient`
};

struct gemm_problem {
  int m, n, k;
  gemm_matrix a, b, c, d;
  const void *alpha, *beta;  // on the device; null if the values below count
  double alpha_value, beta_value;
  gemm_epilogue epilogue;
};

/// The element of `type` with this index as an `Acc`.
template <class Acc>
inline Acc gemm_load(cudaDataType_t type, const void* data, long long index) {
  switch (type) {
    case CUDA_R_64F: return (Acc) static_cast<const double*>(data)[index];
    case CUDA_R_16F: return (Acc)(real) static_cast<const __half*>(data)[index];
    case CUDA_R_16BF: return (Acc)(real) static_cast<const __nv_bfloat16*>(data)[index];
    default: return (Acc) static_cast<const real*>(data)[index];
  }
}
template <class Acc>
inline void gemm_store(cudaDataType_t type, void* data, long long index, Acc value) {
  switch (type) {
    case CUDA_R_64F: static_cast<double*>(data)[index] = (double)value; break;
    case CUDA_R_16F: static_cast<__half*>(data)[index] = __half(value); break;
    case CUDA_R_16BF: static_cast<__nv_bfloat16*>(data)[index] = __nv_bfloat16(value); break;
    default: static_cast<real*>(data)[index] = (real)value;
  }
}
inline bool gemm_knows(cudaDataType_t type) {
  return type == CUDA_R_32F || type == CUDA_R_64F || type == CUDA_R_16F || type == CUDA_R_16BF;
}

inline void* gemm_batch(const gemm_matrix& matrix, unsigned batch) {
  return matrix.batches ? matrix.batches[batch] : matrix.data;
}
inline long long gemm_index(const gemm_matrix& matrix, unsigned batch, long long row,
                            long long column) {
  const long long begin = matrix.batches ? 0 : batch * matrix.batch_step;
  return begin + row * matrix.row_step + column * matrix.column_step;
}

template <class Acc> inline Acc gemm_tanh(Acc x);
template <> inline float gemm_tanh(float x) { return ::tanhf(x); }
template <> inline double gemm_tanh(double x) { return ::tanh(x); }

/// GELU by the hyperbolic tangent, as cuBLASLt has it, and its derivative.
template <class Acc>
inline Acc gemm_gelu(Acc x) {
  const Acc scale = (Acc)0.7978845608028654, cubic = (Acc)0.044715;
  return (Acc)0.5 * x * ((Acc)1 + gemm_tanh<Acc>(scale * (x + cubic * x * x * x)));
}
template <class Acc>
inline Acc gemm_gelu_gradient(Acc x) {
  const Acc scale = (Acc)0.7978845608028654, cubic = (Acc)0.044715;
  const Acc t = gemm_tanh<Acc>(scale * (x + cubic * x * x * x));
  const Acc inner = scale * ((Acc)1 + (Acc)3 * cubic * x * x);
  return (Acc)0.5 * ((Acc)1 + t) + (Acc)0.5 * x * ((Acc)1 - t * t) * inner;
}

constexpr int gemm_rows = 64, gemm_columns = 16, gemm_depth = 64;

/// The element of the result at `row` and `column` for the sum of products `sum`.
template <class Acc>
inline void gemm_finish(const gemm_problem& p, unsigned batch, int row, int column, Acc sum) {
  const Acc alpha = p.alpha ? *static_cast<const Acc*>(p.alpha) : (Acc)p.alpha_value;
  const Acc beta = p.beta ? *static_cast<const Acc*>(p.beta) : (Acc)p.beta_value;
  Acc value = alpha * sum;
  // Where beta is 0 the old values do not count, whatever they are.
  if (beta != 0) {
    const long long at = gemm_index(p.c, batch, row, column);
    value += beta * gemm_load<Acc>(p.c.type, gemm_batch(p.c, batch), at);
  }
  const gemm_epilogue& e = p.epilogue;
  if (e.bias) value += gemm_load<Acc>(e.bias_type, e.bias, row);
  if (e.relu) value = value > 0 ? value : (Acc)0;
  const long long aux = gemm_index(e.auxiliary, batch, row, column);
  if (e.gelu) {
    if (e.auxiliary.data) gemm_store<Acc>(e.auxiliary.type, e.auxiliary.data, aux, value);
    value = gemm_gelu<Acc>(value);
  }
  if (e.gelu_gradient) {
    value *= gemm_gelu_gradient<Acc>(gemm_load<Acc>(e.auxiliary.type, e.auxiliary.data, aux));
  }
  const long long at = gemm_index(p.d, batch, row, column);
  gemm_store<Acc>(p.d.type, gemm_batch(p.d, batch), at, value);
}

/// One tile of the product: a block of one thread. Blocks lie along m, n and the batch.
template <class Acc>
void gemm_kernel(gemm_problem p) {
  const int row = (int)blockIdx.x * gemm_rows, column = (int)blockIdx.y * gemm_columns;
  const int rows = p.m - row < gemm_rows ? p.m - row : gemm_rows;
  const int columns = p.n - column < gemm_columns ? p.n - column : gemm_columns;
  const unsigned batch = blockIdx.z;
  const void *a = gemm_batch(p.a, batch), *b = gemm_batch(p.b, batch);
  Acc sums[gemm_columns][gemm_rows] = {};
  Acc left[gemm_depth][gemm_rows] = {};
  Acc right[gemm_depth][gemm_columns] = {};
  for (int first = 0; first < p.k; first += gemm_depth) {
    const int depth = p.k - first < gemm_depth ? p.k - first : gemm_depth;
    for (int l = 0; l < depth; l++) {
      for (int i = 0; i < rows; i++)
        left[l][i] = gemm_load<Acc>(p.a.type, a, gemm_index(p.a, batch, row + i, first + l));
      for (int j = 0; j < columns; j++)
        right[l][j] = gemm_load<Acc>(p.b.type, b, gemm_index(p.b, batch, first + l, column + j));
    }
    for (int l = 0; l < depth; l++)
      for (int j = 0; j < columns; j++) {
        const Acc factor = right[l][j];
        for (int i = 0; i < gemm_rows; i++) sums[j][i] += left[l][i] * factor;
      }
  }
  for (int j = 0; j < columns; j++)
    for (int i = 0; i < rows; i++) gemm_finish<Acc>(p, batch, row + i, column + j, sums[j][i]);
}

/// The sums of the rows of a matrix with `columns` columns, in their order: a thread for each row.
template <class Acc>
void gemm_row_sums(gemm_matrix matrix, int rows, int columns, void* sums, cudaDataType_t type) {
  const int row = (int)(blockIdx.x * blockDim.x + threadIdx.x);
  if (row >= rows) return;
  Acc sum = 0;
  for (int column = 0; column < columns; column++)
    sum += gemm_load<Acc>(matrix.type, matrix.data, gemm_index(matrix, 0, row, column));
  gemm_store<Acc>(type, sums, row, sum);
}

/// The matrix with rows and columns exchanged if `operation` says so.
inline gemm_matrix gemm_operand(const void* data, cudaDataType_t type, long long ld,
                                cublasOperation_t operation, long long batch_step = 0) {
  const bool plain = operation == CUBLAS_OP_N;
  return {const_cast<void*>(data), type, plain ? 1 : ld, plain ? ld : 1, batch_step, nullptr};
}

inline unsigned gemm_tiles(int size, int tile) { return (unsigned)((size + tile - 1) / tile); }

/// Runs `problem` for `batches` batches.
template <class Acc>
void gemm_run(const gemm_problem& problem, int batches, cudaStream_t stream, const char* name,
              replay_site site) {
  if (problem.m == 0 || problem.n == 0 || batches == 0) return;
  const dim3 grid(gemm_tiles(problem.m, gemm_rows), gemm_tiles(problem.n, gemm_columns),
                  (unsigned)batches);
  fixed_kernel<&gemm_kernel<Acc>>(&gemm_kernel<Acc>, name, site)
      .on(grid, dim3(1), 0, stream)
      .run(problem);
}
}  // namespace replay_rt
