// Causal attention with a learned bias per head and distance and a learned threshold per head:
//
//   s[i, j]   = <q[i], k[j]> / sqrt(dim) + bias[min(i - j, window - 1)]      for j <= i
//   w[i, j]   = exp(s[i, j] - lse[i]),  lse[i] = log(sum over j of exp(s[i, j]))
//   p[i, j]   = max(w[i, j] + tau / (i + 1), 0)
//   out[i]    = sum over j of p[i, j] v[j]
//
// All pointers are device pointers to row-major arrays of float:
//   q, k, v, out   [batch, heads, len, dim], dim 16 or 64
//   bias           [heads, window]
//   tau            [heads]
//   lse            [batch, heads, len]
#pragma once

struct AttentionShape {
    int batch;
    int heads;
    int len;
    int dim;
    int window;
};

// Writes out and lse.
void lazy_attention_forward(const float* q, const float* k, const float* v, const float* bias,
                            const float* tau, float* out, float* lse, AttentionShape shape);

// Writes the gradients of a loss with respect to the inputs, packed and shaped as these, from
//   lse    what the forward pass kept
//   dout   the gradient with respect to out, of any layout with packed rows (dout_stride[3] is 1)
//          that are aligned to 16 bytes: element [b, h, i, d] lies at
//          b * dout_stride[0] + h * dout_stride[1] + i * dout_stride[2] + d
void lazy_attention_backward(const float* q, const float* k, const float* v, const float* bias,
                             const float* tau, const float* lse, const float* dout,
                             const long long* dout_stride, float* dq, float* dk, float* dv,
                             float* dbias, float* dtau, AttentionShape shape);
