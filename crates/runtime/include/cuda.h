// The driver interface's types. Its functions are not here: host code
// under test uses the runtime interface.
#pragma once

#include <stdint.h>

#define CUDA_VERSION 12080

typedef unsigned long long CUdeviceptr;
typedef int CUdevice;
typedef struct CUctx_st* CUcontext;
typedef struct CUmod_st* CUmodule;
typedef struct CUfunc_st* CUfunction;
typedef struct CUstream_st* CUstream;
typedef struct CUevent_st* CUevent;
