// The parts that a run was trained in: from each start to the next stop. Kept in legs.json of the run
// folder, so that the last part can say what all of them took.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace dtn {

// Steps of training alone: evaluations, checkpoints and starting are not counted.
struct TrainingTime {
  double seconds = 0;
  std::int64_t samples = 0;

  double samples_per_second() const {
    return seconds > 0 ? static_cast<double>(samples) / seconds : 0;
  }
};

struct Leg {
  std::string started;  // "2026-11-23T07:11:24Z"
  std::int64_t from_step = 0, to_step = 0;
  double seconds = 0;
  TrainingTime training;
  std::string device, version, commit;
};

class Legs {
 public:
  // Begins a leg. Those before it are read where the run is resumed; a file that cannot be read
  // counts as none.
  Legs(const std::filesystem::path& run_folder, bool resumed, Leg begun);

  // The leg goes on, has come to `step` and trained for `training` of its time; writes the file.
  void save(std::int64_t step, TrainingTime training);
  // Sums over all legs.
  double seconds() const;
  TrainingTime training() const;
  std::size_t count() const { return legs_.size(); }

 private:
  double own_seconds() const;

  std::filesystem::path file_;
  std::vector<Leg> legs_;  // this one is the last
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// The date and time in UTC, as ISO 8601 has it.
std::string utc_now();

}  // namespace dtn
