// Gradients in bfloat16, with sums in float or in bfloat16: the form says how they are taken.

#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <math.h>

constexpr int REVERSED = 1, PARTS = 2, BLOCKS = 3, FAST = 4, DOUBLE = 5, NARROW = 6,
              NARROW_PARTS = 7;

template <class Sum>
static __device__ Sum plus(Sum sum, float term)
{
    return sum + Sum(term);
}

template <>
__device__ __nv_bfloat16 plus(__nv_bfloat16 sum, float term)
{
    return __float2bfloat16(__bfloat162float(sum) + term);
}

template <class Sum, class Term>
static __device__ float sum_in(int form, int n, Term term)
{
    if (form == PARTS || form == NARROW_PARTS) {
        Sum parts[4] = {Sum(0.0f), Sum(0.0f), Sum(0.0f), Sum(0.0f)};
        for (int i = 0; i < n; i++) {
            parts[i % 4] = plus(parts[i % 4], term(i));
        }
        Sum left = plus(parts[0], float(parts[1]));
        Sum right = plus(parts[2], float(parts[3]));
        return float(plus(left, float(right)));
    }
    Sum sum = Sum(0.0f);
    for (int i = 0; i < n; i++) {
        sum = plus(sum, term(form == REVERSED ? n - 1 - i : i));
    }
    return float(sum);
}

template <class Term>
static __device__ float total(int form, int n, Term term)
{
    if (form == NARROW || form == NARROW_PARTS) {
        return sum_in<__nv_bfloat16>(form, n, term);
    }
    return form == DOUBLE ? sum_in<double>(form, n, term) : sum_in<float>(form, n, term);
}

static __device__ float exponential(int form, float x)
{
    return form == FAST ? __expf(x) : expf(x);
}

// A thread per row.
__global__ void softmax_backward_kernel(int form, const __nv_bfloat16* x,
                                        const __nv_bfloat16* grad_y, __nv_bfloat16* grad_x,
                                        int rows, int cols)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) {
        return;
    }
    const __nv_bfloat16* logits = x + row * cols;
    const __nv_bfloat16* upstream = grad_y + row * cols;
    float max = -INFINITY;
    for (int i = 0; i < cols; i++) {
        max = fmaxf(max, float(logits[i]));
    }
    auto power = [=](int i) { return exponential(form, float(logits[i]) - max); };
    float sum = total(form, cols, power);
    auto share = [=](int i) {
        return form == FAST ? __fdividef(power(i), sum) : power(i) / sum;
    };
    float dot = total(form, cols, [=](int i) { return share(i) * float(upstream[i]); });
    for (int i = 0; i < cols; i++) {
        grad_x[row * cols + i] = __float2bfloat16(share(i) * (float(upstream[i]) - dot));
    }
}

// A thread per column.
__global__ void layernorm_parameters_kernel(int form, const __nv_bfloat16* x,
                                            const __nv_bfloat16* grad_y, __nv_bfloat16* grad_gain,
                                            __nv_bfloat16* grad_bias, int rows, int cols)
{
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= cols) {
        return;
    }
    auto normed = [=](int row) {
        const __nv_bfloat16* values = x + row * cols;
        float mean = 0.0f, squares = 0.0f;
        for (int i = 0; i < cols; i++) {
            mean += float(values[i]);
        }
        mean /= cols;
        for (int i = 0; i < cols; i++) {
            squares += (float(values[i]) - mean) * (float(values[i]) - mean);
        }
        float variance = squares / cols + 1e-5f;
        float centred = float(values[column]) - mean;
        return form == FAST ? centred * rsqrtf(variance) : centred / sqrtf(variance);
    };
    auto upstream = [=](int row) { return float(grad_y[row * cols + column]); };
    float gain = total(form, rows, [=](int row) { return upstream(row) * normed(row); });
    grad_gain[column] = __float2bfloat16(gain);
    grad_bias[column] = __float2bfloat16(total(form, rows, upstream));
}

// A thread per element of the table.
__global__ void embedding_gradient_kernel(int form, const __nv_bfloat16* grad_y, const int* tokens,
                                          __nv_bfloat16* grad_table, int rows, int vocab, int cols)
{
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= vocab * cols) {
        return;
    }
    int token = index / cols, column = index % cols;
    float sum = total(form, rows, [=](int row) {
        return tokens[row] == token ? float(grad_y[row * cols + column]) : 0.0f;
    });
    grad_table[index] = __float2bfloat16(sum);
}

void gradients(int form, const __nv_bfloat16* x, const __nv_bfloat16* grad_y, const int* tokens,
               __nv_bfloat16* grad_x, __nv_bfloat16* grad_gain, __nv_bfloat16* grad_bias,
               __nv_bfloat16* grad_table, int rows, int cols, int vocab)
{
    int threads = form == BLOCKS ? 64 : 16;
    auto blocks = [=](int n) { return (n + threads - 1) / threads; };
    softmax_backward_kernel<<<blocks(rows), threads>>>(form, x, grad_y, grad_x, rows, cols);
    layernorm_parameters_kernel<<<blocks(cols), threads>>>(form, x, grad_y, grad_gain, grad_bias,
                                                           rows, cols);
    embedding_gradient_kernel<<<blocks(vocab * cols), threads>>>(form, grad_y, tokens, grad_table,
                                                                 rows, vocab, cols);
}
