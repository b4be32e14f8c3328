// Captures and graphs. A graph stores the dependencies of its nodes, and each replay uses another
// order.
#include <algorithm>

#include "runtime.h"

struct CUgraph_st {
  std::vector<emu::GraphNode> nodes;
};
struct CUgraphExec_st {
  std::vector<emu::GraphNode> nodes;
  unsigned launches = 0;
};

namespace emu {
namespace {

void add_missing(std::vector<std::size_t>& to, const std::vector<std::size_t>& from) {
  for (std::size_t node : from) {
    if (std::find(to.begin(), to.end(), node) == to.end()) to.push_back(node);
  }
}

// Returns true if every node precedes the end of the stream in which the capture began.
bool is_joined(const Capture& capture) {
  std::vector<bool> before(capture.nodes.size());
  std::vector<std::size_t> open = capture.origin->after;
  while (!open.empty()) {
    const std::size_t node = open.back();
    open.pop_back();
    if (before[node]) continue;
    before[node] = true;
    add_missing(open, capture.nodes[node].after);
  }
  return std::all_of(before.begin(), before.end(), [](bool b) { return b; });
}

// Runs the nodes as recorded, or always the runnable node that was recorded last. A node that lacks
// a dependency runs at the wrong time in one of the two orders.
cudaError_t replay(const std::vector<GraphNode>& nodes, bool latest_first) {
  std::vector<bool> done(nodes.size());
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    std::size_t chosen = nodes.size();
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const std::size_t candidate = latest_first ? nodes.size() - 1 - i : i;
      const auto& after = nodes[candidate].after;
      if (!done[candidate] &&
          std::all_of(after.begin(), after.end(), [&](std::size_t k) { return done[k]; })) {
        chosen = candidate;
        break;
      }
    }
    if (cudaError_t error = nodes[chosen].work(); error != cudaSuccess) return error;
    done[chosen] = true;
  }
  return cudaSuccess;
}

}  // namespace

void capture_work(CUstream_st& stream, Work work) {
  Capture& capture = *stream.capture;
  capture.nodes.push_back({std::move(work), stream.after});
  stream.after = {capture.nodes.size() - 1};
}

void capture_record(CUstream_st& stream, EventState& event) {
  event.capture = stream.capture;
  event.after = stream.after;
}

cudaError_t capture_wait(CUstream_st& stream, const EventState& event) {
  if (!event.capture) return event.recorded ? cudaErrorStreamCaptureIsolation : cudaSuccess;
  if (!event.capture->origin) return cudaErrorCapturedEvent;
  if (!stream.capture) {
    stream.capture = event.capture;
    stream.after.clear();
    event.capture->streams.push_back(&stream);
  }
  if (stream.capture != event.capture) return cudaErrorStreamCaptureMerge;
  add_missing(stream.after, event.after);
  return cudaSuccess;
}

}  // namespace emu

using namespace emu;

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  std::lock_guard lock(runtime_mutex());
  *status = resolve(stream)->capture ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  std::lock_guard lock(runtime_mutex());
  CUstream_st* s = resolve(stream);
  if (s->capture) return fail(cudaErrorStreamCaptureInvalidated);
  s->capture = std::make_shared<Capture>();
  s->capture->origin = s;
  s->capture->streams = {s};
  s->after.clear();
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  std::lock_guard lock(runtime_mutex());
  CUstream_st* s = resolve(stream);
  *graph = nullptr;
  if (!s->capture) return fail(cudaErrorStreamCaptureInvalidated);
  const std::shared_ptr<Capture> capture = s->capture;
  if (capture->origin != s) return fail(cudaErrorStreamCaptureUnmatched);
  const bool joined = is_joined(*capture);
  for (CUstream_st* member : capture->streams) member->capture.reset();
  capture->origin = nullptr;
  if (!joined) return fail(cudaErrorStreamCaptureUnjoined);
  *graph = new CUgraph_st{std::move(capture->nodes)};
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  *exec = new CUgraphExec_st{graph->nodes};
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  return enqueue(stream, [exec] { return replay(exec->nodes, exec->launches++ % 2 == 1); });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  std::lock_guard lock(runtime_mutex());
  synchronize_all();
  delete exec;
  return cudaSuccess;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, void*, std::size_t* count) {
  *count = graph->nodes.size();
  return cudaSuccess;
}
