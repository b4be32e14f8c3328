#include "kernels/cuda/trace.h"

#include "core/cuda_stream.h"
#include "cuda/check.h"
#include "cuda/streams.h"

namespace dtn::cuda {

struct Trace::State {
  struct Launch {
    std::string name;
    Event begin, end;
  };
  std::vector<Launch> launches;

  inline static thread_local State* current = nullptr;
};

Trace::Trace() : state_(std::make_unique<State>()) {
  DTN_CHECK(!TracedLaunch::tracing_.exchange(true), "a trace is already running");
  State::current = state_.get();
}

Trace::~Trace() {
  TracedLaunch::tracing_ = false;
  State::current = nullptr;
}

std::vector<TimedLaunch> Trace::launches() const {
  std::vector<TimedLaunch> timed;
  for (const State::Launch& launch : state_->launches) {
    launch.end.wait();
    timed.push_back({launch.name, 1e3 * launch.end.since(launch.begin)});
  }
  return timed;
}

bool TracedLaunch::begin(std::string_view name) {
  Trace::State* trace = Trace::State::current;
  if (!trace) return false;
  if (is_capturing()) return false;
  trace->launches.push_back({std::string(name), {}, {}});
  trace->launches.back().begin.record();
  return true;
}

// Drops a launch that cannot be timed. The next CUDA call reports the error of the device.
void TracedLaunch::end() noexcept {
  auto& launches = Trace::State::current->launches;
  try {
    launches.back().end.record();
  } catch (const Error&) {
    launches.pop_back();
  }
}

}  // namespace dtn::cuda
