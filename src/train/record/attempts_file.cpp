#include "train/record/attempts_file.h"

#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/seconds_since.h"
#include "io/atomic_file.h"

namespace dtn {
namespace {

nlohmann::ordered_json to_json(const Attempt& attempt) {
  return {{"started", attempt.started},
          {"from_step", attempt.from_step},
          {"to_step", attempt.to_step},
          {"seconds", attempt.seconds},
          {"training_seconds", attempt.training.seconds},
          {"samples", attempt.training.samples},
          {"device", attempt.device},
          {"version", attempt.version},
          {"commit", attempt.commit}};
}

// Reads attempts.json, or legs.json, as the file and its list were called before version 0.2.
std::vector<Attempt> read_attempts(const std::filesystem::path& run_folder) {
  std::ifstream file(run_folder / "attempts.json");
  const bool old = !file;
  if (old) file.open(run_folder / "legs.json");
  std::vector<Attempt> attempts;
  try {
    const nlohmann::json all = nlohmann::json::parse(file);
    for (const auto& j : all.at(old ? "legs" : "attempts")) {
      // Files of version 0.1 do not say what part of an attempt was training.
      const TrainingTime training{j.value("training_seconds", 0.0),
                                  j.value("samples", std::int64_t{0})};
      attempts.push_back({j.at("started"), j.at("from_step"), j.at("to_step"), j.at("seconds"),
                          training, j.at("device"), j.at("version"), j.at("commit")});
    }
  } catch (const nlohmann::json::exception&) {
    attempts.clear();
  }
  return attempts;
}

// Returns the date and time in UTC, in ISO 8601 format.
std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

}  // namespace

AttemptsFile::AttemptsFile(const std::filesystem::path& run_folder, bool resumed, Attempt begun)
    : file_(run_folder / "attempts.json") {
  if (resumed) attempts_ = read_attempts(run_folder);
  begun.started = utc_now();
  begun.to_step = begun.from_step;
  attempts_.push_back(std::move(begun));
}

void AttemptsFile::save(std::int64_t step, TrainingTime training) {
  attempts_.back().to_step = step;
  attempts_.back().training = training;
  attempts_.back().seconds = seconds_since(start_);
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const Attempt& attempt : attempts_) all.push_back(to_json(attempt));
  write_file_atomic(file_, nlohmann::ordered_json{{"attempts", all}}.dump(2) + "\n");
}

double AttemptsFile::seconds() const {
  double sum = seconds_since(start_);
  for (std::size_t i = 0; i + 1 < attempts_.size(); ++i) sum += attempts_[i].seconds;
  return sum;
}

TrainingTime AttemptsFile::training() const {
  TrainingTime sum;
  for (const Attempt& attempt : attempts_) {
    sum.seconds += attempt.training.seconds;
    sum.samples += attempt.training.samples;
  }
  return sum;
}

}  // namespace dtn
