// Events, the stream that copies batches ahead, and graphs that replay a whole step at the cost of
// one launch. See cuda_device.h.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace dtn::cuda {

// A point in a stream. The host can wait for it and measure time from it.
class Event {
 public:
  Event();
  ~Event();
  Event(Event&&) noexcept;
  Event& operator=(Event&&) noexcept;

  // Marks the present end of the computing stream, or of the copy stream.
  void record();
  void record_copies();
  // Waits until the device reaches the event. Returns at once if it was never recorded. Throws
  // Error if something before it failed.
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

// Work enqueued from now on in the computing (copy) stream waits for the event.
void compute_after(const Event& event);
void copies_after(const Event& event);

// Copies from page-locked host memory, in parallel with the computing stream.
void copy_ahead(void* to, const void* from, std::size_t bytes);

// Pool of device memory. Memory allocated while a scope is open comes from this pool and returns to
// it. While a graph that was captured in the scope lives, the pool lends its memory to nobody else,
// because replays of the graph write to it. Without such a graph, all pools may use the memory.
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

// A sequence of kernels and copies, recorded once and replayed as one launch.
class Graph {
 public:
  Graph();
  ~Graph();

  // Records the work that `work` enqueues, without running it. All device memory that it allocates
  // must be cached by then, and all host memory that it copies from must be page-locked. Throws
  // Error if something cannot be recorded.
  void capture(const std::function<void()>& work);
  bool captured() const { return state_ != nullptr; }
  // Number of kernels and copies in the graph.
  std::size_t size() const;
  // Enqueues the whole graph.
  void launch();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace dtn::cuda
