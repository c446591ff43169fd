// Streams and events. CUDA Runtime API: "Stream Management", "Event Management".
#pragma once

#include "replay/memory.h"

// Streams and events: all work is done in the order of the calls.
inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return replay_rt::as_error(
      replay_rt::abi->stream_create(reinterpret_cast<void**>(stream), flags));
}
inline cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithFlags(stream, 0);
}
inline cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
  return cudaStreamCreateWithFlags(stream, flags);
}
inline cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return replay_rt::as_error(replay_rt::abi->stream_destroy(stream));
}
inline cudaError_t cudaStreamGetPriority(cudaStream_t, int* priority) {
  return *priority = 0, cudaSuccess;
}
inline cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return *least = *greatest = 0, cudaSuccess;
}
#define CUDART_CB
typedef void (*cudaHostFn_t)(void* data);
/// All work before it is done, so it can run at once.
inline cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  if (replay_rt::is_captured(stream)) {
    replay_rt::graph_node node = {};
    node.kind = replay_rt::graph_node::is_call;
    node.function = function, node.to = data;
    return replay_rt::capture_node(node, stream), cudaSuccess;
  }
  return function(data), cudaSuccess;
}
typedef void (*cudaStreamCallback_t)(cudaStream_t stream, cudaError_t status, void* data);
inline cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback,
                                         void* data, unsigned) {
  if (replay_rt::is_captured(stream)) {
    replay_rt::capture->broken = true;
    return cudaErrorStreamCaptureUnsupported;
  }
  return callback(stream, cudaSuccess, data), cudaSuccess;
}
inline cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (replay_rt::capture && replay_rt::capture->streams.find(stream)) {
    replay_rt::capture->broken = true;
    return cudaErrorStreamCaptureUnsupported;
  }
  return replay_rt::as_error(replay_rt::abi->synchronize(stream));
}
inline cudaError_t cudaStreamQuery(cudaStream_t stream) { return cudaStreamSynchronize(stream); }
inline cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned = 0) {
  if (replay_rt::capture) {
    if (auto* known = replay_rt::capture->events.find(event)) {
      if (known->stream != stream) replay_rt::capture->streams.find(known->stream)->joined = true;
      return replay_rt::capture->streams.add(stream, nullptr), cudaSuccess;
    }
    if (replay_rt::capture->streams.find(stream)) {
      replay_rt::capture->broken = true;
      return cudaErrorStreamCaptureIsolation;
    }
  }
  return replay_rt::as_error(replay_rt::abi->event_wait(stream, event));
}
inline cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return replay_rt::as_error(replay_rt::abi->event_create(reinterpret_cast<void**>(event)));
}
inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  return cudaEventCreate(event);
}
inline cudaError_t cudaEventCreate(cudaEvent_t* event, unsigned) { return cudaEventCreate(event); }
inline cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return replay_rt::as_error(replay_rt::abi->event_destroy(event));
}
inline cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream = nullptr) {
  if (replay_rt::is_captured(stream)) {
    return replay_rt::capture->events.add(event, stream), cudaSuccess;
  }
  return replay_rt::as_error(replay_rt::abi->event_record(event, stream));
}
#define cudaEventRecordDefault 0x00
#define cudaEventRecordExternal 0x01
inline cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream = nullptr,
                                            unsigned = 0) {
  return cudaEventRecord(event, stream);
}
inline cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (replay_rt::capture && replay_rt::capture->events.find(event)) return cudaErrorCapturedEvent;
  return replay_rt::as_error(replay_rt::abi->event_synchronize(event));
}
inline cudaError_t cudaEventQuery(cudaEvent_t event) { return cudaEventSynchronize(event); }
template <class F>
cudaError_t cudaEventElapsedTime(F* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  float elapsed = 0;
  int code = replay_rt::abi->event_elapsed(&elapsed, start, end);
  *milliseconds = elapsed;
  return replay_rt::as_error(code);
}
