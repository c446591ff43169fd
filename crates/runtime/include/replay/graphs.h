// Graphs from stream capture. CUDA Runtime API: "Graph Management", "Stream Management".
//
// A graph runs its nodes in the order of capture, on the stream of its launch.
#pragma once

#include "replay/memory.h"

typedef replay_rt::graph* cudaGraph_t;
typedef struct replay_graph_exec* cudaGraphExec_t;
typedef replay_rt::graph_node* cudaGraphNode_t;

struct replay_graph_exec {
  replay_rt::graph nodes;
};

enum cudaStreamCaptureMode {
  cudaStreamCaptureModeGlobal = 0,
  cudaStreamCaptureModeThreadLocal = 1,
  cudaStreamCaptureModeRelaxed = 2,
};
enum cudaStreamCaptureStatus {
  cudaStreamCaptureStatusNone = 0,
  cudaStreamCaptureStatusActive = 1,
  cudaStreamCaptureStatusInvalidated = 2,
};
enum cudaGraphExecUpdateResult {
  cudaGraphExecUpdateSuccess = 0,
  cudaGraphExecUpdateError = 1,
  cudaGraphExecUpdateErrorTopologyChanged = 2,
};
struct cudaGraphExecUpdateResultInfo {
  cudaGraphExecUpdateResult result;
  cudaGraphNode_t errorNode, errorFromNode;
};
#define cudaGraphInstantiateFlagAutoFreeOnLaunch 1
#define cudaGraphInstantiateFlagUpload 2
#define cudaGraphInstantiateFlagUseNodePriority 8

inline cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  if (stream == nullptr || stream == cudaStreamLegacy) return cudaErrorStreamCaptureUnsupported;
  if (replay_rt::capture != nullptr) return cudaErrorIllegalState;
  auto* made = new replay_rt::stream_capture();
  made->nodes = new replay_rt::graph;
  made->origin = stream;
  made->relaxed = mode == cudaStreamCaptureModeRelaxed;
  made->streams.add(stream, nullptr);
  return replay_rt::capture = made, cudaSuccess;
}
inline cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  replay_rt::stream_capture* done = replay_rt::capture;
  *graph = nullptr;
  if (done == nullptr) return cudaErrorIllegalState;
  if (done->origin != stream) return cudaErrorStreamCaptureUnmatched;
  replay_rt::capture = nullptr;
  if (done->broken) return cudaErrorStreamCaptureInvalidated;
  for (int i = 0; i < done->streams.count; i++)
    if (!done->streams.entries[i].joined) return cudaErrorStreamCaptureUnjoined;
  return *graph = done->nodes, cudaSuccess;
}
inline cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  const bool active = replay_rt::capture && replay_rt::capture->streams.find(stream);
  *status = !active                        ? cudaStreamCaptureStatusNone
            : replay_rt::capture->broken   ? cudaStreamCaptureStatusInvalidated
                                           : cudaStreamCaptureStatusActive;
  return cudaSuccess;
}
inline cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return *mode = cudaStreamCaptureModeGlobal, cudaSuccess;
}

inline cudaError_t cudaGraphCreate(cudaGraph_t* graph, unsigned) {
  return *graph = new replay_rt::graph, cudaSuccess;
}
inline cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return graph ? cudaSuccess : cudaErrorInvalidValue;
}
/// The number of nodes; their list is not told.
inline cudaError_t cudaGraphGetNodes(cudaGraph_t graph, decltype(nullptr), size_t* count) {
  return *count = graph->count, cudaSuccess;
}
inline cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph,
                                        unsigned long long = 0) {
  if (graph == nullptr) return cudaErrorInvalidValue;
  return *exec = new replay_graph_exec{*graph}, cudaSuccess;
}
inline cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* exec, cudaGraph_t graph,
                                                 unsigned long long flags) {
  return cudaGraphInstantiate(exec, graph, flags);
}
/// The form of CUDA 11.
inline cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph,
                                        cudaGraphNode_t* error, char* log, size_t bytes) {
  if (error) *error = nullptr;
  if (log && bytes) *log = 0;
  return cudaGraphInstantiate(exec, graph);
}
inline cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  if (exec == nullptr) return cudaErrorInvalidValue;
  return delete exec, cudaSuccess;
}

namespace replay_rt {
inline bool same_nodes(const graph& a, const graph& b) {
  if (a.count != b.count) return false;
  for (graph_node *x = a.first, *y = b.first; x && y; x = x->next, y = y->next)
    if (x->kind != y->kind || x->launch.function != y->launch.function) return false;
  return true;
}
}  // namespace replay_rt

/// Takes the arguments and shapes of `graph`, whose nodes are of the same kinds and kernels.
inline cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph,
                                       cudaGraphExecUpdateResultInfo* info) {
  const bool same = replay_rt::same_nodes(exec->nodes, *graph);
  if (info)
    *info = {same ? cudaGraphExecUpdateSuccess : cudaGraphExecUpdateErrorTopologyChanged, nullptr,
             nullptr};
  if (!same) return cudaErrorGraphExecUpdateFailure;
  return exec->nodes = *graph, cudaSuccess;
}
/// The form of CUDA 11.
inline cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph,
                                       cudaGraphNode_t* error, cudaGraphExecUpdateResult* result) {
  cudaGraphExecUpdateResultInfo info;
  cudaError_t code = cudaGraphExecUpdate(exec, graph, &info);
  if (error) *error = nullptr;
  if (result) *result = info.result;
  return code;
}
inline cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  if (exec == nullptr) return cudaErrorInvalidValue;
  cudaError_t error = cudaSuccess;
  for (replay_rt::graph_node* node = exec->nodes.first; node; node = node->next) {
    cudaError_t code = cudaSuccess;
    switch (node->kind) {
      case replay_rt::graph_node::is_launch: {
        replay_launch launch = node->launch;
        launch.stream = stream;
        replay_rt::submit(launch);
        code = cudaPeekAtLastError();
        break;
      }
      case replay_rt::graph_node::is_copy:
        code = cudaMemcpyAsync(node->to, node->from, node->bytes, (cudaMemcpyKind)node->value, stream);
        break;
      case replay_rt::graph_node::is_fill:
        code = cudaMemsetAsync(node->to, node->value, node->bytes, stream);
        break;
      case replay_rt::graph_node::is_call:
        code = cudaLaunchHostFunc(stream, node->function, node->to);
    }
    if (error == cudaSuccess) error = code;
  }
  return error;
}

#define REPLAY_NO_GRAPH(name)                                                                   \
  template <class... T>                                                                         \
  cudaError_t name(T...) REPLAY_UNSUPPORTED(#name                                               \
      ": graphs made node by node are not supported, capture a stream instead");
REPLAY_NO_GRAPH(cudaGraphAddKernelNode)
REPLAY_NO_GRAPH(cudaGraphAddMemcpyNode)
REPLAY_NO_GRAPH(cudaGraphAddMemcpyNode1D)
REPLAY_NO_GRAPH(cudaGraphAddMemsetNode)
REPLAY_NO_GRAPH(cudaGraphAddHostNode)
REPLAY_NO_GRAPH(cudaGraphAddChildGraphNode)
REPLAY_NO_GRAPH(cudaGraphAddNode)
REPLAY_NO_GRAPH(cudaGraphExecKernelNodeSetParams)
REPLAY_NO_GRAPH(cudaStreamGetCaptureInfo)
#undef REPLAY_NO_GRAPH
