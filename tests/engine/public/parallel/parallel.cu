// Data parallel training: a kernel, and a launcher that sums its gradients over all processes.
#include <assert.h>
#include <cuda_runtime.h>
#include <mpi.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>

#define NCCL(call)                                                 \
  do {                                                             \
    ncclResult_t result = call;                                    \
    if (result != ncclSuccess) {                                   \
      printf("%s:%d %s\n", __FILE__, __LINE__, ncclGetErrorString(result)); \
      exit(1);                                                     \
    }                                                              \
  } while (0)

struct Group {
  int rank, size;
  ncclComm_t comm = nullptr;
  cudaStream_t stream = 0;
};
static Group group;

void join(int* argc, char*** argv) {
  char host[64];
  gethostname(host, sizeof host);
  int status = MPI_Init(argc, argv);
  assert(status == MPI_SUCCESS);
  MPI_Comm_rank(MPI_COMM_WORLD, &group.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &group.size);
  ncclUniqueId id;
  if (group.rank == 0) NCCL(ncclGetUniqueId(&id));
  MPI_Bcast((void*)&id, sizeof(id), MPI_BYTE, 0, MPI_COMM_WORLD);
  NCCL(ncclCommInitRank(&group.comm, group.size, id, group.rank));
}

__global__ void halve(float* grads, const float* sums, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) grads[i] = 0.5f * sums[i];
}

void average(float* grads, const float* sums, int n, bool everywhere) {
  halve<<<(n + 31) / 32, 32>>>(grads, sums, n);
  if (everywhere)
    NCCL(ncclAllReduce(grads, grads, n, ncclFloat, ncclSum, group.comm, group.stream));
}

int main(int argc, char** argv) {
  join(&argc, &argv);
  MPI_Finalize();
}
