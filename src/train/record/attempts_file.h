// The attempts of a run. An attempt is one process of a run, from a start to the next stop.
// attempts.json in the run folder keeps them, so that the last attempt can report the sums over all
// attempts.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace dtn {

// Time of training steps only, without evaluations, checkpoints and startup.
struct TrainingTime {
  double seconds = 0;
  std::int64_t samples = 0;

  double samples_per_second() const {
    return seconds > 0 ? static_cast<double>(samples) / seconds : 0;
  }
};

struct Attempt {
  std::string started;  // "2026-11-23T07:11:24Z"
  std::int64_t from_step = 0, to_step = 0;
  double seconds = 0;
  TrainingTime training;
  std::string device, version, commit;
};

class AttemptsFile {
 public:
  // Begins an attempt. If the run is resumed, reads the earlier attempts; a file that cannot be
  // read counts as empty.
  AttemptsFile(const std::filesystem::path& run_folder, bool resumed, Attempt begun);

  // Records that this attempt has reached `step` and has trained for `training`, and writes the
  // file.
  void save(std::int64_t step, TrainingTime training);
  // Sums over all attempts.
  double seconds() const;
  TrainingTime training() const;
  std::size_t count() const { return attempts_.size(); }
  const Attempt& current() const { return attempts_.back(); }

 private:
  std::filesystem::path file_;
  std::vector<Attempt> attempts_;  // the last one is this attempt
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace dtn
