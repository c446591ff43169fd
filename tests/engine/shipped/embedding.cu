// Token and position embeddings.
#include "common.cuh"

__global__ void encoder_forward_kernel(floatX* out, const int* inp, const floatX* wte, const floatX* wpe, int B, int T,
                                       int C) {
    int idx = (blockIdx.x * blockDim.x + threadIdx.x) * x128::size;
    int N = B * T * C;
    if (idx < N) {
        int bt = idx / C, b = bt / T, t = bt % T, c = idx % C;
        int ix = inp[b * T + t];
        const x128 wte128 = load128(wte + ix * C + c), wpe128 = load128(wpe + t * C + c);
        x128 packed_out;
        for (int k = 0; k < (int)x128::size; k++) packed_out[k] = (floatX)((float)wte128[k] + (float)wpe128[k]);
        store128(out + b * T * C + t * C + c, packed_out);
    }
}
void encoder_forward(floatX* out, const int* inp, const floatX* wte, const floatX* wpe, int B, int T, int C, int V,
                     cudaStream_t stream) {
    const int N = B * T * C;
    encoder_forward_kernel<<<CEIL_DIV(N, (int)(64 * x128::size)), 64, 0, stream>>>(out, inp, wte, wpe, B, T, C);
    (void)V;
}
//@ case encoder_forward
//@ call $(out, inp, wte, wpe, B, T, C, V, 0);
//@ sizes B=2 T=5 C=24 V=13
//@ in inp:i32[B*T]<V wte[V*C] wpe[T*C]
//@ out out[B*T*C]
//@ ref encoder_forward

__global__ void encoder_backward_kernel(float* dwte, float* dwpe, const float* dout, const int* inp, int B, int T, int C) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx < B * T * C) {
        int bt = idx / C, b = bt / T, t = bt % T, c = idx % C;
        int ix = inp[b * T + t];
        const float* dout_btc = dout + b * T * C + t * C + c;
        float *dwte_ix = dwte + ix * C + c, *dwpe_tc = dwpe + t * C + c;
        atomicAdd(dwte_ix, *dout_btc);
        atomicAdd(dwpe_tc, *dout_btc);
    }
}
void encoder_backward(float* dwte, float* dwpe, const float* dout, const int* inp, int B, int T, int C, int V) {
    encoder_backward_kernel<<<CEIL_DIV(B * T * C, 256), 256>>>(dwte, dwpe, dout, inp, B, T, C);
    (void)V;
}
//@ case encoder_backward
//@ call $(dwte, dwpe, dout, inp, B, T, C, V);
//@ sizes B=2 T=5 C=24 V=13
//@ in dout[B*T*C] inp:i32[B*T]<V
//@ out dwte[V*C]=0 dwpe[T*C]=0
//@ ref encoder_backward

// no atomics: a thread a column of the positions
__global__ void wpe_backward_kernel(float* dwpe, const float* dout, int B, int T, int C) {
    const int tc = blockIdx.x * blockDim.x + threadIdx.x;
    if (tc >= T * C) return;
    float accum = 0.0f;
    for (int b = 0; b < B; b++) accum += dout[b * T * C + tc];
    dwpe[tc] += accum;
}
void wpe_backward(float* dwpe, const float* dout, int B, int T, int C, const int block_size) {
    wpe_backward_kernel<<<CEIL_DIV(T * C, block_size), block_size>>>(dwpe, dout, B, T, C);
}
//@ case wpe_backward
//@ call $(dwpe, dout, B, T, C, 64);
//@ sizes B=3 T=5 C=24
//@ in dout[B*T*C]
//@ out dwpe[T*C]=0
//@ ref wpe_backward

template <typename index_t>
__global__ void embedding_bag_kernel(float* out, const float* table, const index_t* indices, const index_t* offsets,
                                     int dim) {
    const int bag = blockIdx.x;
    for (int c = threadIdx.x; c < dim; c += blockDim.x) {
        float sum = 0.0f;
        for (index_t i = offsets[bag]; i < offsets[bag + 1]; ++i) sum += __ldg(table + indices[i] * dim + c);
        const index_t count = offsets[bag + 1] - offsets[bag];
        out[bag * dim + c] = count > 0 ? sum / count : 0.0f;
    }
}
void embedding_bag(float* out, const float* table, const int64_t* indices, const int64_t* offsets, int bags, int dim) {
    embedding_bag_kernel<int64_t><<<bags, 32>>>(out, table, indices, offsets, dim);
}
//@ case embedding_bag
//@ call int64_t* offsets; cudaMalloc(&offsets, (bags + 1) * 8); int64_t host[5] = {0, 3, 3, 5, 12}; cudaMemcpy(offsets, host, 40, cudaMemcpyHostToDevice); int64_t* wide; cudaMalloc(&wide, 12 * 8); widen_indices<<<1, 12>>>(wide, indices); $(out, table, wide, offsets, bags, dim);
//@ sizes bags=4 dim=40 V=9
//@ in table[V*dim] indices:i32[12]<V
//@ out out[bags*dim]
//@ ref embedding_bag
__global__ void widen_indices(int64_t* wide, const int* narrow) { wide[threadIdx.x] = narrow[threadIdx.x]; }
