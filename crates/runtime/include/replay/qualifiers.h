// CUDA's qualifiers and version macros. On the CPU every function can be called from everywhere.
// CUDA C++ Programming Guide: "Function Execution Space Specifiers", "Variable Memory Space
// Specifiers", "Launch Bounds".
#pragma once

#define __global__
#define __device__
#define __host__
#define __constant__
// In a section of their own: host code and kernels share them.
#define __managed__ __attribute__((section("replay_managed")))
#define __grid_constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __launch_bounds__(...)
#define __maxnreg__(...)
#define __cluster_dims__(...)

#define __CUDACC__ 1
#define __NVCC__ 1
#define __CUDA_ARCH__ 900
#define __CUDACC_VER_MAJOR__ 12
#define __CUDACC_VER_MINOR__ 8
#define CUDART_VERSION 12080
#define CUDA_VERSION 12080

// Eigen as plain host code: its path for nvcc names functions that only nvcc's front end passes over,
// and its own vectors know no float64 shadow.
#define EIGEN_NO_CUDA 1
#define EIGEN_DONT_VECTORIZE 1
