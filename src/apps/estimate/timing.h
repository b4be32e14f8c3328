// Time and memory on any device.
#pragma once

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "core/allocator.h"
#include "core/cuda_device.h"
#include "core/cuda_stream.h"
#include "core/seconds_since.h"
#include "dtn/core/device.h"

namespace dtn {

inline AllocatorStats memory_stats(Device device) {
  return device == kCpu ? allocator_stats() : cuda::allocator_stats();
}
inline void reset_peak_memory(Device device) {
  device == kCpu ? reset_peak_bytes() : cuda::reset_peak_bytes();
}
inline void release_memory(Device device) {
  device == kCpu ? release_cached_memory() : cuda::release_cached_memory();
}

// Returns the seconds that `work` takes, by the clock of the device where it runs.
double seconds_of(Device device, const auto& work) {
  if (device == kCpu) {
    const auto start = std::chrono::steady_clock::now();
    work();
    return seconds_since(start);
  }
  cuda::Event begin, end;
  begin.record();
  work();
  end.record();
  end.wait();
  return 1e-3 * end.since(begin);
}

// Returns the median of one or more values: of an even number, the mean of the two middle ones.
inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*std::max_element(values.begin(), middle) + *middle) / 2;
}

// Returns the median seconds of `work` on a CUDA device, replayed as a graph to avoid launch costs.
inline double replayed_seconds(int steps, const std::function<void()>& work) {
  cuda::MemoryPool pool;
  cuda::MemoryPool::Scope scope(pool);
  work();
  work();
  cuda::Graph graph;
  graph.capture(work);
  // All replays are enqueued at once, so the device never waits for the host between two marks.
  constexpr std::size_t kWarmup = 3;
  std::vector<cuda::Event> marks(kWarmup + 1 + static_cast<std::size_t>(steps));
  for (cuda::Event& mark : marks) {
    graph.launch();
    mark.record();
  }
  marks.back().wait();
  std::vector<double> times;
  for (std::size_t i = kWarmup + 1; i < marks.size(); ++i) {
    times.push_back(1e-3 * marks[i].since(marks[i - 1]));
  }
  return median(std::move(times));
}

}  // namespace dtn
