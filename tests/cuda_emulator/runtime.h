// What the emulator's streams, events and graphs are made of, shared by runtime.cpp and graphs.cpp.
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
  std::vector<std::size_t> after;  // the nodes it waits for
};

// What is being captured: one stream from the start, others as they wait for its events.
struct Capture {
  CUstream_st* origin = nullptr;  // null when the capture has ended
  std::vector<CUstream_st*> streams;
  std::vector<GraphNode> nodes;
};

// Streams hold on to it: an event may be destroyed while it is still to be reached.
struct EventState {
  CUstream_st* stream = nullptr;  // where it was recorded last
  std::uint64_t recorded = 0;     // times it was put into a stream
  std::uint64_t reached = 0;      // times a stream came to it
  std::chrono::steady_clock::time_point time;
  // Recorded last in a capture: after these nodes of it.
  std::shared_ptr<Capture> capture;
  std::vector<std::size_t> after;
};
using EventHandle = std::shared_ptr<EventState>;

struct Operation {
  Work work;                     // or
  EventHandle record;            // an event to record, or
  EventHandle wait;              // one to wait for,
  std::uint64_t generation = 0;  // as it was recorded the n-th time
};

// One lock for everything: the emulator is about order, not speed.
std::recursive_mutex& runtime_mutex();
// Notes the error for cudaGetLastError().
cudaError_t fail(cudaError_t error);
CUstream_st* resolve(cudaStream_t stream);
void synchronize_all();

// The same for a stream that is being captured; with the lock held.
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
  std::vector<std::size_t> after;  // what the next node of the capture waits for
};
