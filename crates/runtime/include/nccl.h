// NCCL: the names for compiling a source. A replay has one process and one device, so a call with
// communication ends it, named. NCCL: "API Reference".
#pragma once

#include "cuda_runtime.h"
#include "replay/communication.h"

#define NCCL_MAJOR 2
#define NCCL_UNIQUE_ID_BYTES 128

enum ncclResult_t {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7,
};
enum ncclDataType_t {
  ncclInt8 = 0,
  ncclChar = 0,
  ncclUint8 = 1,
  ncclInt32 = 2,
  ncclInt = 2,
  ncclUint32 = 3,
  ncclInt64 = 4,
  ncclUint64 = 5,
  ncclFloat16 = 6,
  ncclHalf = 6,
  ncclFloat32 = 7,
  ncclFloat = 7,
  ncclFloat64 = 8,
  ncclDouble = 8,
  ncclBfloat16 = 9,
};
enum ncclRedOp_t { ncclSum = 0, ncclProd = 1, ncclMax = 2, ncclMin = 3, ncclAvg = 4 };
struct ncclComm;
typedef ncclComm* ncclComm_t;
struct ncclUniqueId {
  char internal[NCCL_UNIQUE_ID_BYTES];
};

inline const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclSuccess ? "no error" : "error of NCCL";
}
inline const char* ncclGetLastError(ncclComm_t) { return ""; }

REPLAY_COMMUNICATES(ncclResult_t, ncclGetVersion)
REPLAY_COMMUNICATES(ncclResult_t, ncclGetUniqueId)
REPLAY_COMMUNICATES(ncclResult_t, ncclCommInitRank)
REPLAY_COMMUNICATES(ncclResult_t, ncclCommInitAll)
REPLAY_COMMUNICATES(ncclResult_t, ncclCommFinalize)
REPLAY_COMMUNICATES(ncclResult_t, ncclCommDestroy)
REPLAY_COMMUNICATES(ncclResult_t, ncclCommAbort)
REPLAY_COMMUNICATES(ncclResult_t, ncclCommCount)
REPLAY_COMMUNICATES(ncclResult_t, ncclCommUserRank)
REPLAY_COMMUNICATES(ncclResult_t, ncclCommGetAsyncError)
REPLAY_COMMUNICATES(ncclResult_t, ncclGroupStart)
REPLAY_COMMUNICATES(ncclResult_t, ncclGroupEnd)
REPLAY_COMMUNICATES(ncclResult_t, ncclAllReduce)
REPLAY_COMMUNICATES(ncclResult_t, ncclReduce)
REPLAY_COMMUNICATES(ncclResult_t, ncclBroadcast)
REPLAY_COMMUNICATES(ncclResult_t, ncclBcast)
REPLAY_COMMUNICATES(ncclResult_t, ncclAllGather)
REPLAY_COMMUNICATES(ncclResult_t, ncclReduceScatter)
REPLAY_COMMUNICATES(ncclResult_t, ncclSend)
REPLAY_COMMUNICATES(ncclResult_t, ncclRecv)
