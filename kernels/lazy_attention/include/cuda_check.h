// Error checks for the CUDA runtime: allocations and copies that fail end the program, launches
// that fail are reported and left to the caller.
#pragma once

#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>

#define CUDA_CHECK(call)                                                                          \
    do {                                                                                          \
        cudaError_t status_ = (call);                                                             \
        if (status_ != cudaSuccess) {                                                             \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call,                         \
                    cudaGetErrorString(status_));                                                 \
            exit(EXIT_FAILURE);                                                                   \
        }                                                                                         \
    } while (0)

// Whether the launch just made was accepted; says on stderr why not.
static inline bool launch_accepted(const char* kernel)
{
    cudaError_t status = cudaGetLastError();
    if (status != cudaSuccess) {
        fprintf(stderr, "%s was not launched: %s\n", kernel, cudaGetErrorString(status));
        return false;
    }
    return true;
}
