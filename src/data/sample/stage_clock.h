// Measures the stages of preparing images.
#pragma once

#include <chrono>

namespace dtn {

// Total time of each stage of preparing images; seconds.
struct StageSeconds {
  double read = 0, decode = 0, resize = 0, augment = 0, normalize = 0;
};

// Measures the time of each stage, if requested.
class StageClock {
 public:
  using Clock = std::chrono::steady_clock;
  explicit StageClock(StageSeconds* stages) : stages_(stages) {
    if (stages_) last_ = Clock::now();
  }
  // Adds the time since the last call to this stage.
  void end(double StageSeconds::*stage) {
    if (!stages_) return;
    const auto now = Clock::now();
    stages_->*stage += std::chrono::duration<double>(now - last_).count();
    last_ = now;
  }

 private:
  StageSeconds* stages_;
  Clock::time_point last_;
};

}  // namespace dtn
