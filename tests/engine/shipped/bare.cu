// Kernels alone, as notebooks and libraries ship them: who includes this file launches them.
#include "common.cuh"

__global__ void vector_add(const float* a, const float* b, float* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
//@ case vector_add
//@ call $<<<CEIL_DIV(n, 64), 64>>>(a, b, c, n);
//@ sizes n=200
//@ in a[n] b[n]
//@ out c[n]
//@ ref vector_add

__global__ void softmax_rows(float* y, const float* x, int rows, int cols) {
    const int row = blockIdx.x;
    if (row >= rows) return;
    x += row * cols;
    y += row * cols;
    float m = -FLT_MAX, sum = 0.0f;
    for (int i = threadIdx.x; i < cols; i += blockDim.x) m = fmaxf(m, x[i]);
    m = block_reduce_max(m);
    for (int i = threadIdx.x; i < cols; i += blockDim.x) sum += __expf(x[i] - m);
    sum = block_reduce_sum(sum);
    for (int i = threadIdx.x; i < cols; i += blockDim.x) y[i] = __fdividef(__expf(x[i] - m), sum);
}
//@ case softmax_rows
//@ call $<<<rows, 64>>>(y, x, rows, cols);
//@ sizes rows=5 cols=70
//@ in x[rows*cols]
//@ out y[rows*cols]
//@ ref softmax_rows

template <typename T, int UNROLL>
__global__ void scale_inplace(T* x, float alpha, size_t n) {
    const size_t stride = (size_t)gridDim.x * blockDim.x;
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride * UNROLL)
#pragma unroll
        for (int u = 0; u < UNROLL; u++)
            if (i + u * stride < n) x[i + u * stride] = static_cast<T>(static_cast<float>(x[i + u * stride]) * alpha);
}
//@ case scale_inplace
//@ call $<float, 4><<<1, 32>>>(x, 1.5f, n);
//@ sizes n=300
//@ in x0[n]
//@ out x[n]=x0
//@ ref scale_inplace

__global__ void matrix_transpose_naive(float* out, const float* in, int rows, int cols) {
    int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < rows && col < cols) out[col * rows + row] = in[row * cols + col];
}
//@ case matrix_transpose_naive
//@ call $<<<dim3(2, 2), dim3(16, 16)>>>(out, in, rows, cols);
//@ sizes rows=20 cols=30
//@ in in[rows*cols]
//@ out out[rows*cols]
//@ ref matrix_transpose_naive

__global__ void reverse_rows(float* out, const float* in, int rows, int cols) {
    extern __shared__ float line[];
    for (int i = threadIdx.x; i < cols; i += blockDim.x) line[i] = in[blockIdx.x * cols + i];
    __syncthreads();
    for (int i = threadIdx.x; i < cols; i += blockDim.x) out[blockIdx.x * cols + i] = line[cols - 1 - i];
}
//@ case reverse_rows
//@ call $<<<rows, 32, cols * sizeof(float)>>>(out, in, rows, cols);
//@ sizes rows=4 cols=45
//@ in in[rows*cols]
//@ out out[rows*cols]
//@ ref reverse_rows

__global__ void sum_kernel(float* total, const float* __restrict__ x, int n) {
    float sum = 0.0f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += x[i];
    sum = warp_reduce_sum(sum);
    if ((threadIdx.x & 31) == 0) atomicAdd(total, sum);
}
//@ case sum_kernel
//@ call $<<<2, 64>>>(total, x, n);
//@ sizes n=300
//@ in x[n]
//@ out total[1]=0
//@ ref sum_kernel

__global__ void gather_rows(float* out, const float* table, const int* indices, int tokens, int dim) {
    for (int i = threadIdx.x; i < dim; i += blockDim.x)
        out[blockIdx.x * dim + i] = table[(size_t)indices[blockIdx.x] * dim + i];
}
//@ case gather_rows
//@ call $<<<tokens, 32>>>(out, table, indices, tokens, dim);
//@ sizes tokens=7 dim=40 V=11
//@ in table[V*dim] indices:i32[tokens]<V
//@ out out[tokens*dim]
//@ ref gather_rows

__global__ void half_axpy(__half* y, const __half* x, __half a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = __hfma(a, x[i], y[i]);
}
//@ case half_axpy
//@ call $<<<CEIL_DIV(n, 32), 32>>>(y, x, __float2half(0.5f), n);
//@ sizes n=90
//@ in x:f16[n] y0:f16[n]
//@ out y:f16[n]=y0
//@ ref half_axpy
//@ tol 2e-3
