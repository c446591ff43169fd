// Cross-entropy of a language model's logits and its gradient, on the device.
//
// All pointers are device pointers to packed, row-major arrays:
//   logits   [batch, seq, vocab]
//   targets  [batch, seq], each in [0, vocab)
//   mask     [batch, seq], 0 where a position does not count (padding); null counts them all
#pragma once

// Returns the mean of -log softmax(logits)[target] over the positions that count, or 0 where
// none does. Waits for the device.
float lm_cross_entropy_loss(const float* logits, const int* targets, const unsigned char* mask,
                            int batch, int seq, int vocab);

// Writes the gradient of lm_cross_entropy_loss with respect to the logits to grad_logits
// [batch, seq, vocab]: (softmax(logits) - onehot(target)) / count, and 0 at positions that do not
// count. A launch that the device refuses is reported on stderr and leaves grad_logits as it is.
void lm_cross_entropy_gradient(const float* logits, const int* targets, float* grad_logits,
                               int batch, int seq, int vocab, const unsigned char* mask);
