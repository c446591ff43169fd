// MPI: the names for compiling a source. A replay has one process, so a call ends it, named. The
// MPI Forum's "MPI: A Message-Passing Interface Standard".
#pragma once

#include <unistd.h>

#include "cuda_runtime.h"
#include "replay/communication.h"

enum MPI_Comm { MPI_COMM_NULL, MPI_COMM_WORLD, MPI_COMM_SELF };
enum MPI_Datatype {
  MPI_DATATYPE_NULL,
  MPI_BYTE,
  MPI_CHAR,
  MPI_SIGNED_CHAR,
  MPI_UNSIGNED_CHAR,
  MPI_SHORT,
  MPI_UNSIGNED_SHORT,
  MPI_INT,
  MPI_UNSIGNED,
  MPI_LONG,
  MPI_UNSIGNED_LONG,
  MPI_LONG_LONG,
  MPI_UNSIGNED_LONG_LONG,
  MPI_FLOAT,
  MPI_DOUBLE,
  MPI_INT32_T,
  MPI_INT64_T,
  MPI_UINT32_T,
  MPI_UINT64_T,
};
enum MPI_Op { MPI_OP_NULL, MPI_MAX, MPI_MIN, MPI_SUM, MPI_PROD, MPI_LAND, MPI_LOR };
struct MPI_Status {
  int MPI_SOURCE, MPI_TAG, MPI_ERROR;
};
typedef int MPI_Request;

#define MPI_SUCCESS 0
#define MPI_MAX_ERROR_STRING 512
#define MPI_MAX_PROCESSOR_NAME 256
#define MPI_COMM_TYPE_SHARED 1
#define MPI_INFO_NULL 0
#define MPI_IN_PLACE ((void*)1)
#define MPI_STATUS_IGNORE ((MPI_Status*)0)
#define MPI_STATUSES_IGNORE ((MPI_Status*)0)

inline int MPI_Error_string(int, char* text, int* length) {
  text[0] = 0;
  *length = 0;
  return MPI_SUCCESS;
}

REPLAY_COMMUNICATES(int, MPI_Init)
REPLAY_COMMUNICATES(int, MPI_Init_thread)
REPLAY_COMMUNICATES(int, MPI_Initialized)
REPLAY_COMMUNICATES(int, MPI_Finalize)
REPLAY_COMMUNICATES(int, MPI_Abort)
REPLAY_COMMUNICATES(int, MPI_Comm_rank)
REPLAY_COMMUNICATES(int, MPI_Comm_size)
REPLAY_COMMUNICATES(int, MPI_Comm_split)
REPLAY_COMMUNICATES(int, MPI_Comm_split_type)
REPLAY_COMMUNICATES(int, MPI_Comm_free)
REPLAY_COMMUNICATES(int, MPI_Get_processor_name)
REPLAY_COMMUNICATES(double, MPI_Wtime)
REPLAY_COMMUNICATES(int, MPI_Barrier)
REPLAY_COMMUNICATES(int, MPI_Bcast)
REPLAY_COMMUNICATES(int, MPI_Reduce)
REPLAY_COMMUNICATES(int, MPI_Allreduce)
REPLAY_COMMUNICATES(int, MPI_Gather)
REPLAY_COMMUNICATES(int, MPI_Allgather)
REPLAY_COMMUNICATES(int, MPI_Scatter)
REPLAY_COMMUNICATES(int, MPI_Alltoall)
REPLAY_COMMUNICATES(int, MPI_Send)
REPLAY_COMMUNICATES(int, MPI_Recv)
REPLAY_COMMUNICATES(int, MPI_Isend)
REPLAY_COMMUNICATES(int, MPI_Irecv)
REPLAY_COMMUNICATES(int, MPI_Wait)
REPLAY_COMMUNICATES(int, MPI_Waitall)
