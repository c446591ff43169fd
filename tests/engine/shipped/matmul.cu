// Products of matrices and sums of columns.
#include "common.cuh"

__global__ void sgemm_naive_kernel(int M, int N, int K, float alpha, const float* A, const float* B, float beta, float* C) {
    const uint x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < M && y < N) {
        float tmp = 0.0;
        for (int i = 0; i < K; ++i) tmp += A[x * K + i] * B[i * N + y];
        C[x * N + y] = alpha * tmp + beta * C[x * N + y];
    }
}
void sgemm_naive(int M, int N, int K, float alpha, const float* A, const float* B, float beta, float* C) {
    dim3 gridDim(CEIL_DIV(M, 16), CEIL_DIV(N, 16)), blockDim(16, 16);
    sgemm_naive_kernel<<<gridDim, blockDim>>>(M, N, K, alpha, A, B, beta, C);
}
//@ case sgemm_naive
//@ call $(M, N, K, 0.5f, A, B, 0.25f, C);
//@ sizes M=33 N=21 K=30
//@ in A[M*K] B[K*N] C0[M*N]
//@ out C[M*N]=C0
//@ ref sgemm alpha=0.5 beta=0.25

template <const int BLOCKSIZE>
__global__ void sgemm_shared_kernel(int M, int N, int K, const float* A, const float* B, float* C) {
    __shared__ float As[BLOCKSIZE * BLOCKSIZE], Bs[BLOCKSIZE * BLOCKSIZE];
    const uint cRow = blockIdx.x, cCol = blockIdx.y;
    const uint threadCol = threadIdx.x % BLOCKSIZE, threadRow = threadIdx.x / BLOCKSIZE;
    A += cRow * BLOCKSIZE * K;
    B += cCol * BLOCKSIZE;
    C += cRow * BLOCKSIZE * N + cCol * BLOCKSIZE;
    float tmp = 0.0;
    for (int bkIdx = 0; bkIdx < K; bkIdx += BLOCKSIZE) {
        As[threadRow * BLOCKSIZE + threadCol] = A[threadRow * K + threadCol];
        Bs[threadRow * BLOCKSIZE + threadCol] = B[threadRow * N + threadCol];
        __syncthreads();
        A += BLOCKSIZE;
        B += BLOCKSIZE * N;
        for (int dotIdx = 0; dotIdx < BLOCKSIZE; ++dotIdx)
            tmp += As[threadRow * BLOCKSIZE + dotIdx] * Bs[dotIdx * BLOCKSIZE + threadCol];
        __syncthreads();
    }
    C[threadRow * N + threadCol] = tmp;
}
void sgemm_shared(int M, int N, int K, const float* A, const float* B, float* C) {
    assert(M % 16 == 0 && N % 16 == 0 && K % 16 == 0);
    sgemm_shared_kernel<16><<<dim3(M / 16, N / 16), 256>>>(M, N, K, A, B, C);
}
//@ case sgemm_shared
//@ call $(M, N, K, A, B, C);
//@ sizes M=32 N=16 K=48
//@ in A[M*K] B[K*N]
//@ out C[M*N]
//@ ref sgemm

// each thread 4 x 4 results, loads of four
template <const int BM, const int BN, const int BK, const int TM, const int TN>
__global__ void sgemm_vectorized_kernel(int M, int N, int K, float* A, float* B, float* C) {
    const uint cRow = blockIdx.y, cCol = blockIdx.x;
    const int threadCol = threadIdx.x % (BN / TN), threadRow = threadIdx.x / (BN / TN);
    __shared__ float As[BM * BK];
    __shared__ float Bs[BK * BN];
    A += cRow * BM * K;
    B += cCol * BN;
    C += cRow * BM * N + cCol * BN;
    const uint innerRowA = threadIdx.x / (BK / 4), innerColA = threadIdx.x % (BK / 4);
    const uint innerRowB = threadIdx.x / (BN / 4), innerColB = threadIdx.x % (BN / 4);
    float threadResults[TM * TN] = {0.0};
    float regM[TM] = {0.0}, regN[TN] = {0.0};
    for (uint bkIdx = 0; bkIdx < K; bkIdx += BK) {
        float4 tmp = reinterpret_cast<float4*>(&A[innerRowA * K + innerColA * 4])[0];
        As[(innerColA * 4 + 0) * BM + innerRowA] = tmp.x;
        As[(innerColA * 4 + 1) * BM + innerRowA] = tmp.y;
        As[(innerColA * 4 + 2) * BM + innerRowA] = tmp.z;
        As[(innerColA * 4 + 3) * BM + innerRowA] = tmp.w;
        reinterpret_cast<float4*>(&Bs[innerRowB * BN + innerColB * 4])[0] =
            reinterpret_cast<float4*>(&B[innerRowB * N + innerColB * 4])[0];
        __syncthreads();
        A += BK;
        B += BK * N;
        for (uint dotIdx = 0; dotIdx < BK; ++dotIdx) {
            for (uint i = 0; i < TM; ++i) regM[i] = As[dotIdx * BM + threadRow * TM + i];
            for (uint i = 0; i < TN; ++i) regN[i] = Bs[dotIdx * BN + threadCol * TN + i];
            for (uint m = 0; m < TM; ++m)
                for (uint n = 0; n < TN; ++n) threadResults[m * TN + n] += regM[m] * regN[n];
        }
        __syncthreads();
    }
    for (uint m = 0; m < TM; m += 1) {
        for (uint n = 0; n < TN; n += 4) {
            float4 tmp;
            tmp.x = threadResults[m * TN + n];
            tmp.y = threadResults[m * TN + n + 1];
            tmp.z = threadResults[m * TN + n + 2];
            tmp.w = threadResults[m * TN + n + 3];
            reinterpret_cast<float4*>(&C[(threadRow * TM + m) * N + threadCol * TN + n])[0] = tmp;
        }
    }
}
void sgemm_vectorized(int M, int N, int K, float* A, float* B, float* C) {
    const uint BM = 32, BN = 32, BK = 8, TM = 4, TN = 4;
    dim3 gridDim(CEIL_DIV(N, BN), CEIL_DIV(M, BM));
    sgemm_vectorized_kernel<BM, BN, BK, TM, TN><<<gridDim, (BM * BN) / (TM * TN)>>>(M, N, K, A, B, C);
}
//@ case sgemm_vectorized
//@ call $(M, N, K, A, B, C);
//@ sizes M=32 N=64 K=24
//@ in A[M*K] B[K*N]
//@ out C[M*N]
//@ ref sgemm

// out = inp * weight^T + bias
__global__ void matmul_forward_kernel1(float* out, const float* inp, const float* weight, const float* bias, int BT,
                                       int C, int OC) {
    int bt = blockIdx.x * blockDim.x + threadIdx.x, oc = blockIdx.y * blockDim.y + threadIdx.y;
    if (bt < BT && oc < OC) {
        float val = (bias != NULL) ? bias[oc] : 0;
        const float *wrow = weight + oc * C, *inp_bt = inp + bt * C;
        for (int i = 0; i < C; i++) val += inp_bt[i] * wrow[i];
        out[bt * OC + oc] = val;
    }
}
void matmul_forward1(float* out, const float* inp, const float* weight, const float* bias, int B, int T, int C, int OC,
                     const int sqrt_block_size) {
    dim3 gridDim(CEIL_DIV(B * T, sqrt_block_size), CEIL_DIV(OC, sqrt_block_size));
    dim3 blockDim(sqrt_block_size, sqrt_block_size);
    matmul_forward_kernel1<<<gridDim, blockDim>>>(out, inp, weight, bias, B * T, C, OC);
}
//@ case matmul_forward1
//@ call $(out, inp, weight, bias, B, T, C, OC, 8);
//@ sizes B=2 T=5 C=24 OC=19
//@ in inp[B*T*C] weight[OC*C] bias[OC]
//@ out out[B*T*OC]
//@ ref matmul_forward

__global__ void matmul_backward_kernel(float* dinp, float* dweight, const float* dout, const float* inp,
                                       const float* weight, int BT, int C, int OC) {
    int c = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
    if (c >= C) return;
    if (row < BT) {
        float sum = 0.f;
        for (int o = 0; o < OC; o++) sum += dout[row * OC + o] * weight[o * C + c];
        dinp[row * C + c] = sum;
    } else {
        int o = row - BT;
        float sum = 0.f;
        for (int bt = 0; bt < BT; bt++) sum += dout[bt * OC + o] * inp[bt * C + c];
        dweight[o * C + c] += sum;
    }
}
void matmul_backward(float* dinp, float* dweight, const float* dout, const float* inp, const float* weight, int B, int T,
                     int C, int OC) {
    matmul_backward_kernel<<<dim3(CEIL_DIV(C, 32), B * T + OC), 32>>>(dinp, dweight, dout, inp, weight, B * T, C, OC);
}
//@ case matmul_backward
//@ call $(dinp, dweight, dout, inp, weight, B, T, C, OC);
//@ sizes B=2 T=5 C=24 OC=19
//@ in dout[B*T*OC] inp[B*T*C] weight[OC*C]
//@ out dinp[B*T*C] dweight[OC*C]=0
//@ ref matmul_backward

// column sums: a block for 32 columns
__global__ void matmul_backward_bias_kernel4(float* dbias, const float* dout, int B, int T, int OC) {
    extern __shared__ float smem[];
    const int warp_id = threadIdx.x / 32, lane_id = threadIdx.x % 32, tl = blockIdx.x * 32;
    const int vstep = blockDim.x / 32;
    float dout_sum = 0.0f;
    if (tl + lane_id < OC)
        for (int row = warp_id; row < B * T; row += vstep) dout_sum += dout[tl + lane_id + row * OC];
    smem[lane_id + warp_id * 32] = dout_sum;
    __syncthreads();
    dout_sum = 0.0f;
    if (warp_id == 0 && tl + lane_id < OC) {
        for (int j = 0; j < vstep; j++) dout_sum += smem[lane_id + j * 32];
        dbias[tl + lane_id] += dout_sum;
    }
}
void matmul_backward_bias4(float* dbias, const float* dout, int B, int T, int OC, int block_size) {
    const int grid_size = CEIL_DIV(OC, 32);
    matmul_backward_bias_kernel4<<<grid_size, block_size, block_size * sizeof(float)>>>(dbias, dout, B, T, OC);
}
__global__ void matmul_backward_bias_kernel5(float* dbias, const float* dout, int N, int OC) {
    __shared__ float partial[8][33];
    const int oc = blockIdx.x * 32 + threadIdx.x;
    float sum = 0.f;
    if (oc < OC)
        for (int i = blockIdx.y * blockDim.y + threadIdx.y; i < N; i += gridDim.y * blockDim.y) sum += dout[i * OC + oc];
    partial[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    for (int step = blockDim.y / 2; step > 0; step >>= 1) {
        if ((int)threadIdx.y < step) partial[threadIdx.y][threadIdx.x] += partial[threadIdx.y + step][threadIdx.x];
        __syncthreads();
    }
    if (threadIdx.y == 0 && oc < OC) atomicAdd(&dbias[oc], partial[0][threadIdx.x]);
}
void matmul_backward_bias5(float* dbias, const float* dout, int B, int T, int OC, int block_size) {
    dim3 grid(CEIL_DIV(OC, 32), 2), block(32, 8);
    matmul_backward_bias_kernel5<<<grid, block>>>(dbias, dout, B * T, OC);
    (void)block_size;
}
//@ case matmul_backward_bias4 matmul_backward_bias5
//@ call $(dbias, dout, B, T, OC, 128);
//@ sizes B=3 T=7 OC=45
//@ in dout[B*T*OC]
//@ out dbias[OC]=0
//@ ref matmul_backward_bias

__global__ void batched_matmul_kernel(half* C, const half* A, const half* B, int M, int N, int K) {
    const int batch = blockIdx.z, row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= M || col >= N) return;
    const half2 *a = reinterpret_cast<const half2*>(A + ((size_t)batch * M + row) * K);
    float sum = 0.f;
    for (int k = 0; k < K / 2; k++) {
        float2 x = __half22float2(a[k]);
        sum += x.x * __half2float(B[((size_t)batch * K + 2 * k) * N + col]) +
               x.y * __half2float(B[((size_t)batch * K + 2 * k + 1) * N + col]);
    }
    C[((size_t)batch * M + row) * N + col] = __float2half_rn(sum);
}
void batched_matmul(half* C, const half* A, const half* B, int batch, int M, int N, int K, cudaStream_t stream) {
    dim3 block(8, 8), grid(CEIL_DIV(N, 8), CEIL_DIV(M, 8), batch);
    batched_matmul_kernel<<<grid, block, 0, stream>>>(C, A, B, M, N, K);
}
//@ case batched_matmul
//@ call $(C, A, B, batch, M, N, K, 0);
//@ sizes batch=2 M=9 N=11 K=12
//@ in A:f16[batch*M*K] B:f16[batch*K*N]
//@ out C:f16[batch*M*N]
//@ ref batched_matmul
//@ tol 2e-3
