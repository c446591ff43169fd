// Memory pools, pinned memory, limits, and functions for several devices. CUDA
// Runtime API: "Stream Ordered Memory Allocator", "Memory Management", "Peer Device Memory Access".
#pragma once

#include "replay/memory.h"

// There is one pool; it gives memory back at once.
typedef struct replay_pool* cudaMemPool_t;
enum cudaMemPoolAttr {
  cudaMemPoolReuseFollowEventDependencies = 1,
  cudaMemPoolReuseAllowOpportunistic = 2,
  cudaMemPoolReuseAllowInternalDependencies = 3,
  cudaMemPoolAttrReleaseThreshold = 4,
};
namespace replay_rt {
inline cudaMemPool_t the_pool() {
  static char pool;
  return reinterpret_cast<cudaMemPool_t>(&pool);
}
}  // namespace replay_rt
inline cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  return *pool = replay_rt::the_pool(), cudaSetDevice(device);
}
inline cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int device) {
  return cudaDeviceGetDefaultMemPool(pool, device);
}
inline cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t) { return cudaSetDevice(device); }
inline cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) {
  return cudaSuccess;
}
inline cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, size_t) { return cudaSuccess; }
template <class T>
cudaError_t cudaMallocFromPoolAsync(T** pointer, size_t bytes, cudaMemPool_t, cudaStream_t stream,
                                    REPLAY_SITE_PARAMS) {
  return cudaMallocAsync(pointer, bytes, stream, file, line);
}

// Pinned memory of the host stays the host's: a kernel's access to it ends the replay.
#define cudaHostRegisterDefault 0x00
#define cudaHostRegisterPortable 0x01
#define cudaHostRegisterMapped 0x02
inline cudaError_t cudaHostRegister(void*, size_t, unsigned) { return cudaSuccess; }
inline cudaError_t cudaHostUnregister(void*) { return cudaSuccess; }
template <class T>
cudaError_t cudaHostGetDevicePointer(T** on_device, void* on_host, unsigned) {
  return *on_device = static_cast<T*>(on_host), cudaSuccess;
}

// One device: copies between devices stay on it, and none has a peer.
inline cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device,
                                       size_t bytes, cudaStream_t stream = nullptr) {
  if (to_device != 0 || from_device != 0) return cudaErrorInvalidDevice;
  return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream);
}
inline cudaError_t cudaMemcpyPeer(void* to, int to_device, const void* from, int from_device,
                                  size_t bytes) {
  return cudaMemcpyPeerAsync(to, to_device, from, from_device, bytes);
}
inline cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) { return cudaErrorInvalidDevice; }
inline cudaError_t cudaDeviceDisablePeerAccess(int) { return cudaErrorInvalidDevice; }
inline cudaError_t cudaDeviceGetPCIBusId(char* text, int bytes, int device) {
  const char id[] = "0000:00:00.0";
  if (device != 0) return cudaErrorInvalidDevice;
  if (bytes < (int)sizeof id) return cudaErrorInvalidValue;
  for (size_t i = 0; i < sizeof id; i++) text[i] = id[i];
  return cudaSuccess;
}
inline cudaError_t cudaCtxResetPersistingL2Cache() { return cudaSuccess; }

#define cudaGetSymbolSize(size, symbol) (*(size) = sizeof(symbol), cudaSuccess)
