#include "train/legs.h"

#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>

#include "io/atomic_file.h"

namespace dtn {
namespace {

nlohmann::ordered_json to_json(const Leg& leg) {
  return {{"started", leg.started},
          {"from_step", leg.from_step},
          {"to_step", leg.to_step},
          {"seconds", leg.seconds},
          {"training_seconds", leg.training.seconds},
          {"samples", leg.training.samples},
          {"device", leg.device},
          {"version", leg.version},
          {"commit", leg.commit}};
}

std::vector<Leg> read_legs(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::vector<Leg> legs;
  try {
    const nlohmann::json all = nlohmann::json::parse(file);
    for (const auto& j : all.at("legs")) {
      // Files of version 0.1 do not say what part of a leg was training.
      const TrainingTime training{j.value("training_seconds", 0.0),
                                  j.value("samples", std::int64_t{0})};
      legs.push_back({j.at("started"), j.at("from_step"), j.at("to_step"), j.at("seconds"),
                      training, j.at("device"), j.at("version"), j.at("commit")});
    }
  } catch (const nlohmann::json::exception&) {
    legs.clear();
  }
  return legs;
}

}  // namespace

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

Legs::Legs(const std::filesystem::path& run_folder, bool resumed, Leg begun)
    : file_(run_folder / "legs.json") {
  if (resumed) legs_ = read_legs(file_);
  begun.started = utc_now();
  begun.to_step = begun.from_step;
  legs_.push_back(std::move(begun));
}

double Legs::own_seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

void Legs::save(std::int64_t step, TrainingTime training) {
  legs_.back().to_step = step;
  legs_.back().training = training;
  legs_.back().seconds = own_seconds();
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const Leg& leg : legs_) all.push_back(to_json(leg));
  write_file_atomic(file_, nlohmann::ordered_json{{"legs", all}}.dump(2) + "\n");
}

double Legs::seconds() const {
  double sum = own_seconds();
  for (std::size_t i = 0; i + 1 < legs_.size(); ++i) sum += legs_[i].seconds;
  return sum;
}

TrainingTime Legs::training() const {
  TrainingTime sum;
  for (const Leg& leg : legs_) {
    sum.seconds += leg.training.seconds;
    sum.samples += leg.training.samples;
  }
  return sum;
}

}  // namespace dtn
