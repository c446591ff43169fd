// Cross-entropy of an unembedding and its gradients. See cross_entropy.h for the layout.

#include "cross_entropy.h"

#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cuda_check.h"
#include "fused_backward.cuh"
#include "fused_forward.cuh"
#include "label_gradient.cuh"

// Tokens of a block and rows of the unembedding that pass by it, and the other way round for dk.
constexpr int kTokenBlock = 8;
constexpr int kItemTile = 64;
constexpr int kItemBlock = 8;
constexpr int kTokenTile = 32;

static int blocks_of(int count, int block)
{
    return (count + block - 1) / block;
}

// One microbatch; adds to dk and dk_label.
template <typename T, int kWidth>
static void cross_entropy_of_microbatch(const T* q, const T* k, const int* targets,
                                        const float* dloss, float* loss, float* lse, T* dq,
                                        float* dk, float* dk_label, CrossEntropySizes sizes)
{
    constexpr size_t forward_bytes = tile_bytes<T, kWidth>(kTokenBlock + kItemTile);
    constexpr size_t dk_bytes = tile_bytes<T, kWidth>(kItemBlock + kTokenTile);
    int token_blocks = blocks_of(sizes.tokens, kTokenBlock);
    if (sizes.items % kItemTile == 0) {
        fused_forward_kernel<T, kWidth, kTokenBlock, kItemTile, false>
            <<<token_blocks, kThreads, forward_bytes>>>(q, k, targets, loss, lse, sizes.tokens,
                                                        sizes.items);
    } else {
        fused_forward_kernel<T, kWidth, kTokenBlock, kItemTile, true>
            <<<token_blocks, kThreads, forward_bytes>>>(q, k, targets, loss, lse, sizes.tokens,
                                                        sizes.items);
    }
    CUDA_CHECK(cudaGetLastError());
    fused_dq_kernel<T, kWidth, kTokenBlock, kItemTile>
        <<<token_blocks, kThreads, forward_bytes>>>(q, k, targets, dloss, lse, dq, sizes.tokens,
                                                    sizes.items);
    CUDA_CHECK(cudaGetLastError());
    fused_dk_kernel<T, kWidth, kItemBlock, kTokenTile>
        <<<blocks_of(sizes.items, kItemBlock), kThreads, dk_bytes>>>(q, k, dloss, lse, dk,
                                                                     sizes.tokens, sizes.items);
    CUDA_CHECK(cudaGetLastError());
    scatter_label_gradient_kernel<T, kWidth><<<blocks_of(sizes.tokens, kWarps), kThreads>>>(
        q, targets, dloss, dk_label, sizes.tokens);
    CUDA_CHECK(cudaGetLastError());
}

template <typename T, int kWidth>
static void cross_entropy_of_width(const T* q, const T* k, const int* targets, const float* dloss,
                                   float* loss, float* lse, T* dq, float* dk, float* dk_label,
                                   CrossEntropySizes sizes)
{
    int elements = sizes.padded_items * kWidth;
    CUDA_CHECK(cudaMemset(dk, 0, elements * sizeof(float)));
    CUDA_CHECK(cudaMemset(dk_label, 0, elements * sizeof(float)));
    for (int i = 0; i < sizes.microbatches; i++) {
        size_t token = (size_t)i * sizes.tokens;
        cross_entropy_of_microbatch<T, kWidth>(q + token * kWidth, k, targets + token,
                                               dloss + token, loss + token, lse + token,
                                               dq + token * kWidth, dk, dk_label, sizes);
    }
    add_label_gradient_kernel<<<blocks_of(elements, kThreads), kThreads>>>(dk_label, dk, elements);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaDeviceSynchronize());
}

template <typename T>
void cross_entropy(const T* q, const T* k, const int* targets, const float* dloss, float* loss,
                   float* lse, T* dq, float* dk, float* dk_label, CrossEntropySizes sizes)
{
    switch (sizes.width) {
    case 32:
        cross_entropy_of_width<T, 32>(q, k, targets, dloss, loss, lse, dq, dk, dk_label, sizes);
        break;
    case 64:
        cross_entropy_of_width<T, 64>(q, k, targets, dloss, loss, lse, dq, dk, dk_label, sizes);
        break;
    default:
        fprintf(stderr, "cross_entropy: a width of %d is not supported\n", sizes.width);
        exit(EXIT_FAILURE);
    }
}
