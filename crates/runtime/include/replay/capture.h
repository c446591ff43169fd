// Capture of a stream's work: launches, copies and fills become nodes of a graph instead of running.
// CUDA C++ Programming Guide: "Creating a Graph Using Stream Capture".
#pragma once

#include <new>

#include "replay/abi.h"

namespace replay_rt {

/// One piece of work, and the next one in the order of capture.
struct graph_node {
  enum kind_type { is_launch, is_copy, is_fill, is_call } kind;
  replay_launch launch;  // with its own copies of the arguments
  void* to;
  const void* from;
  size_t bytes;
  int value;  // the direction of a copy, or what a fill writes
  void (*function)(void*);
  graph_node* next;
};

/// Nodes in the order of capture. They are kept until the process ends: executable graphs share them.
struct graph {
  graph_node* first = nullptr;
  graph_node* last = nullptr;
  size_t count = 0;

  void add(const graph_node& node) {
    graph_node* copy = new graph_node(node);
    copy->next = nullptr;
    if (last) last->next = copy; else first = copy;
    last = copy;
    count++;
  }
};

/// Streams or events of a capture.
struct captured_set {
  static constexpr int most = 64;
  struct entry {
    const void* handle;
    const void* stream;  // of an event: where it was recorded
    bool joined;         // of a stream: another one waits for all that it has done
  } entries[most];
  int count = 0;

  entry* find(const void* handle) {
    for (int i = 0; i < count; i++)
      if (entries[i].handle == handle) return &entries[i];
    return nullptr;
  }
  void add(const void* handle, const void* stream) {
    if (entry* known = find(handle)) {
      known->stream = stream;
      return;
    }
    if (count == most) abi->device_abort("a capture of more than 64 streams or events is not supported", {});
    entries[count++] = {handle, stream, true};
  }
};

struct stream_capture {
  graph* nodes;
  const void* origin;
  bool relaxed, broken;
  captured_set streams, events;
};
/// The current capture, or null.
extern stream_capture* capture;

/// Whether work for `stream` is captured. The default stream waits for all others, and a capture
/// cannot.
inline bool is_captured(const void* stream) {
  if (capture == nullptr) return false;
  if (capture->streams.find(stream)) return true;
  if (stream == nullptr || stream == reinterpret_cast<void*>(1))
    abi->device_abort("work for the default stream while another one is captured is not supported", {});
  return false;
}
inline void capture_node(const graph_node& node, const void* stream) {
  capture->nodes->add(node);
  capture->streams.find(stream)->joined = stream == capture->origin;
}

/// `launch` with copies of its arguments.
inline replay_launch own_arguments(const replay_launch& launch) {
  replay_launch own = launch;
  const uint32_t count = launch.arg_count;
  own.args = new void*[count + 1];
  size_t* sizes = new size_t[count + 1];
  uint8_t* kinds = new uint8_t[count + 1];
  for (uint32_t i = 0; i < count; i++) {
    sizes[i] = launch.arg_sizes[i];
    kinds[i] = launch.arg_kinds ? launch.arg_kinds[i] : (uint8_t)REPLAY_ARGUMENT_VALUE;
    if (kinds[i] == REPLAY_ARGUMENT_REFERENCE)
      abi->device_abort("a captured launch of a kernel with a reference as parameter is not supported",
                        launch.site);
    own.args[i] = ::operator new(sizes[i], std::align_val_t(64));
    __builtin_memcpy(own.args[i], launch.args[i], sizes[i]);
  }
  // The kernel behind the arguments.
  own.args[count] = launch.args[count];
  own.arg_sizes = sizes;
  own.arg_kinds = launch.arg_kinds ? kinds : nullptr;
  return own;
}

/// Performs `launch`, or captures it.
inline void submit(const replay_launch& launch) {
  if (!is_captured(launch.stream)) {
    abi->launch(&launch);
    return;
  }
  graph_node node = {};
  node.kind = graph_node::is_launch;
  node.launch = own_arguments(launch);
  capture_node(node, launch.stream);
}

}  // namespace replay_rt
