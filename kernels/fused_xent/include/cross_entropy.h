// Cross-entropy of an unembedding and its gradients, over microbatches.
//
// All pointers are device pointers to packed, row-major arrays; T is __nv_bfloat16 or float:
//   q         [microbatches, tokens, width]   outputs of the model, T
//   k         [padded_items, width]           unembedding, T; rows from `items` on are padding
//   targets   [microbatches, tokens]          item ids, 0 .. items-1
//   dloss     [microbatches, tokens]          upstream gradient of the loss
//   loss      [microbatches, tokens]          lse - <q, k[target]>
//   lse       [microbatches, tokens]          log of the sum of exp(<q, k[item]>)
//   dq        [microbatches, tokens, width]   gradient of q, T
//   dk        [padded_items, width]           gradient of k, over all microbatches
//   dk_label  [padded_items, width]           what the targets' rows contribute to dk
#pragma once

struct CrossEntropySizes {
    int microbatches;
    int tokens;  // of one microbatch
    int width;   // 32 or 64
    int items;
    int padded_items;
};

// Works through the microbatches in order and writes all outputs; waits for the device. The logits
// are never stored. A width that is not supported ends the program.
template <typename T>
void cross_entropy(const T* q, const T* k, const int* targets, const float* dloss, float* loss,
                   float* lse, T* dq, float* dk, float* dk_label, CrossEntropySizes sizes);
