// Time and order on the CUDA device: events, the stream that copies batches ahead, and graphs that
// replay a whole step at the cost of one launch. See cuda_device.h.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace dtn::cuda {

// A point in a stream that the host can wait for, and measure from.
class Event {
 public:
  Event();
  ~Event();
  Event(Event&&) noexcept;
  Event& operator=(Event&&) noexcept;

  // Marks the end of what is enqueued for computing, or for copying ahead.
  void record();
  void record_copies();
  // Waits until the device has come to it; at once when it was never recorded. Throws Error when
  // something before it failed.
  void wait() const;
  bool reached() const;
  // Milliseconds from `start` to this; both must have been reached.
  double since(const Event& start) const;

 private:
  friend void compute_after(const Event&);
  friend void copies_after(const Event&);
  struct State;
  std::unique_ptr<State> state_;
};

// What is enqueued from now on for computing (copying ahead) waits for the event.
void compute_after(const Event& event);
void copies_after(const Event& event);

// From page-locked host memory, beside whatever is being computed.
void copy_ahead(void* to, const void* from, std::size_t bytes);

// Device memory taken while a scope is open comes from this pool, returns to it, and is given to
// nobody else while a graph lives that was captured in the scope: memory that its replays write must
// not be lent out in between. Without such a graph the memory is everybody's to use.
class MemoryPool {
 public:
  MemoryPool();
  ~MemoryPool();  // tensors from the pool may outlive it
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  class Scope {
   public:
    explicit Scope(MemoryPool& pool);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    int previous_;
  };

 private:
  int id_;
};

// A sequence of kernels and copies recorded once and replayed as one.
class Graph {
 public:
  Graph();
  ~Graph();

  // Records what `work` enqueues, without running it. Everything it takes must be cached by then,
  // host memory it copies from page-locked. Throws Error when something cannot be recorded.
  void capture(const std::function<void()>& work);
  bool captured() const { return state_ != nullptr; }
  // Kernels and copies in the graph.
  std::size_t size() const;
  // Enqueues all of it.
  void launch();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace dtn::cuda
