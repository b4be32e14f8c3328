#include "core/cuda_stream.h"
#include "cuda/check.h"
#include "cuda/streams.h"

namespace dtn::cuda {

StreamOrder::StreamOrder() {
  use_device();
  DTN_CUDA(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming));
}
StreamOrder::~StreamOrder() { (void)cudaEventDestroy(event_); }

void StreamOrder::wait(cudaStream_t later, cudaStream_t earlier) {
  DTN_CUDA(cudaEventRecord(event_, earlier));
  DTN_CUDA(cudaStreamWaitEvent(later, event_, 0));
}

struct Event::State {
  cudaEvent_t event = nullptr;
  bool recorded = false;
  State() {
    use_device();
    // A waiting thread sleeps, so that it takes no core from the threads that prepare batches.
    DTN_CUDA(cudaEventCreateWithFlags(&event, cudaEventBlockingSync));
  }
  ~State() { (void)cudaEventDestroy(event); }
};

Event::Event() : state_(std::make_unique<State>()) {}
Event::~Event() = default;
Event::Event(Event&&) noexcept = default;
Event& Event::operator=(Event&&) noexcept = default;

void Event::record() {
  DTN_CUDA(cudaEventRecord(state_->event, compute_stream()));
  state_->recorded = true;
}
void Event::record_copies() {
  DTN_CUDA(cudaEventRecord(state_->event, copy_stream()));
  state_->recorded = true;
}
void Event::wait() const {
  if (state_->recorded) DTN_CUDA(cudaEventSynchronize(state_->event));
}
bool Event::reached() const {
  if (!state_->recorded) return true;
  cudaError_t error = cudaEventQuery(state_->event);
  if (error == cudaErrorNotReady) return false;
  DTN_CUDA(error);
  return true;
}
double Event::since(const Event& start) const {
  float milliseconds = 0;
  DTN_CUDA(cudaEventElapsedTime(&milliseconds, start.state_->event, state_->event));
  return milliseconds;
}

void compute_after(const Event& event) {
  if (event.state_->recorded) {
    DTN_CUDA(cudaStreamWaitEvent(compute_stream(), event.state_->event, 0));
  }
}
void copies_after(const Event& event) {
  if (event.state_->recorded) {
    DTN_CUDA(cudaStreamWaitEvent(copy_stream(), event.state_->event, 0));
  }
}

struct Graph::State {
  const PoolUse memory;  // holds the pool that is open during the capture
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  ~State() {
    if (exec) (void)cudaGraphExecDestroy(exec);
    if (graph) (void)cudaGraphDestroy(graph);
  }
};

Graph::Graph() = default;
Graph::~Graph() = default;

void Graph::capture(const std::function<void()>& work) {
  auto state = std::make_unique<State>();
  // Relaxed, because loader threads may allocate page-locked memory during the capture.
  DTN_CUDA(cudaStreamBeginCapture(compute_stream(), cudaStreamCaptureModeRelaxed));
  try {
    work();
  } catch (...) {
    (void)cudaStreamEndCapture(compute_stream(), &state->graph);
    (void)cudaGetLastError();
    throw;
  }
  DTN_CUDA(cudaStreamEndCapture(compute_stream(), &state->graph));
  DTN_CUDA(cudaGraphInstantiate(&state->exec, state->graph, 0));
  state_ = std::move(state);
}

std::size_t Graph::size() const {
  std::size_t nodes = 0;
  if (state_) DTN_CUDA(cudaGraphGetNodes(state_->graph, nullptr, &nodes));
  return nodes;
}

void Graph::launch() {
  DTN_CHECK(state_, "this graph was never captured");
  DTN_CUDA(cudaGraphLaunch(state_->exec, compute_stream()));
}

}  // namespace dtn::cuda
