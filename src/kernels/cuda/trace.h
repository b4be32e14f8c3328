// What single launches on a CUDA device take. While a Trace is alive, everything that is enqueued
// for computing stands between two events; otherwise a launch pays a test of one flag.
#pragma once

#include <atomic>
#include <concepts>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace dtn::cuda {

struct TimedLaunch {
  std::string name;
  double microseconds = 0;
};

// Of the launches by this thread, one trace at a time. What is captured into a graph is left out:
// its events would have no times.
//
// The first event of a launch may be reached while the host still prepares the launch, and its time
// then counts that too: give the device work that lasts until the host is ahead, before the trace.
class Trace {
 public:
  Trace();
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  // Those since the trace began, in the order they were enqueued. Waits for them.
  std::vector<TimedLaunch> launches() const;

 private:
  friend class TracedLaunch;
  struct State;
  std::unique_ptr<State> state_;
};

// Stands around a launch.
class TracedLaunch {
 public:
  explicit TracedLaunch(const char* name) : on_(is_tracing() && begin(name)) {}
  // For names that take time to make.
  template <std::invocable F>
  explicit TracedLaunch(const F& name) : on_(is_tracing() && begin(name())) {}
  ~TracedLaunch() {
    if (on_) [[unlikely]]
      end();
  }
  TracedLaunch(const TracedLaunch&) = delete;
  TracedLaunch& operator=(const TracedLaunch&) = delete;

 private:
  friend class Trace;
  static bool is_tracing() { return tracing_.load(std::memory_order_relaxed); }
  // Whether this launch is timed.
  static bool begin(std::string_view name);
  static void end() noexcept;

  inline static std::atomic<bool> tracing_{false};
  const bool on_;
};

}  // namespace dtn::cuda
