// Internals of the emulator's streams, events and graphs, shared by runtime.cpp and graphs.cpp.
#pragma once

#include <cuda_runtime.h>

#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

namespace emu {

using Work = std::function<cudaError_t()>;

struct GraphNode {
  Work work;
  std::vector<std::size_t> after;  // nodes that this node waits for
};

// A capture in progress: one stream from the start, and other streams once they wait for its
// events.
struct Capture {
  CUstream_st* origin = nullptr;  // null after the end of the capture
  std::vector<CUstream_st*> streams;
  std::vector<GraphNode> nodes;
};

// Streams hold a reference: an event may be destroyed before it is reached.
struct EventState {
  CUstream_st* stream = nullptr;  // stream of the last record
  std::uint64_t recorded = 0;     // number of records put into a stream
  std::uint64_t reached = 0;      // number of records reached by a stream
  std::chrono::steady_clock::time_point time;
  // If last recorded in a capture: the capture, and the nodes that come before.
  std::shared_ptr<Capture> capture;
  std::vector<std::size_t> after;
};
using EventHandle = std::shared_ptr<EventState>;

struct Operation {
  Work work;                     // work to run, or
  EventHandle record;            // event to record, or
  EventHandle wait;              // event to wait for,
  std::uint64_t generation = 0;  // at its n-th record
};

// One lock for everything: the emulator tests order, not speed.
std::recursive_mutex& runtime_mutex();
// Stores the error for cudaGetLastError().
cudaError_t fail(cudaError_t error);
CUstream_st* resolve(cudaStream_t stream);
void synchronize_all();

// The same operations for a stream that is being captured. The caller holds the lock.
void capture_work(CUstream_st& stream, Work work);
void capture_record(CUstream_st& stream, EventState& event);
cudaError_t capture_wait(CUstream_st& stream, const EventState& event);

}  // namespace emu

struct CUevent_st {
  emu::EventHandle state = std::make_shared<emu::EventState>();
};

struct CUstream_st {
  std::deque<emu::Operation> operations;
  bool draining = false, high_priority = false;
  std::shared_ptr<emu::Capture> capture;
  std::vector<std::size_t> after;  // nodes that the next node of the capture waits for
};
