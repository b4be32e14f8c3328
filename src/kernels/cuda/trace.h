// Times of single launches on a CUDA device. While a Trace is alive, each operation enqueued in the
// computing stream is between two events; otherwise a launch costs one test of a flag.
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

// Traces the launches of this thread; there can be one trace at a time. Launches captured into a
// graph are left out, because their events would have no times.
//
// The device may reach the first event of a launch while the host still prepares the launch; the
// measured time then includes the preparation. To avoid this, give the device enough work before
// the trace that the host stays ahead.
class Trace {
 public:
  Trace();
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  // Returns the launches since the trace began, in the order of their enqueueing. Waits for them.
  std::vector<TimedLaunch> launches() const;

 private:
  friend class TracedLaunch;
  struct State;
  std::unique_ptr<State> state_;
};

// Times the launch in its scope.
class TracedLaunch {
 public:
  explicit TracedLaunch(const char* name) : on_(is_tracing() && begin(name)) {}
  // For names that are costly to build.
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
  // Returns true if this launch is timed.
  static bool begin(std::string_view name);
  static void end() noexcept;

  inline static std::atomic<bool> tracing_{false};
  const bool on_;
};

}  // namespace dtn::cuda
