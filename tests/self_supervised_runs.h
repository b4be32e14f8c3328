// Runs of the configs in tests/golden/self_supervised, for tests of the tasks dino and supcon.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "dtn/config/load.h"
#include "dtn/io/safetensors.h"
#include "temp_folder.h"
#include "tensors.h"
#include "train/checkpoint.h"
#include "train/trainer.h"

namespace dtn::test {

inline std::filesystem::path golden_file(const std::string& name) {
  return std::filesystem::path(DTN_TESTS_FOLDER "/golden/self_supervised") / name;
}

// A finished run: its last checkpoint, and the lines of metrics.jsonl.
struct FinishedRun {
  CheckpointData end;
  std::vector<nlohmann::json> steps;

  std::vector<double> logged(const std::string& name) const {
    std::vector<double> values;
    for (const auto& line : steps) values.push_back(line.at(name).get<double>());
    return values;
  }
};

// Config `name` with the views and initial weights of its golden.
inline ExperimentConfig golden_config(const std::string& name, const std::string& views,
                                      const std::vector<std::string>& overrides = {}) {
  std::vector<std::string> all{
      "data.train=" + golden_file(views + "_views.safetensors").string(),
      "model.init_weights=" + golden_file(name + "_init.safetensors").string()};
  all.insert(all.end(), overrides.begin(), overrides.end());
  return load_experiment(golden_file(name + ".yaml").string(), all,
                         standard_registries().schemas());
}

inline FinishedRun run_of(const ExperimentConfig& config, Communicator* ranks = nullptr,
                          Device device = kCpu) {
  const TempFolder folder;
  TrainerOptions options;
  options.output = folder.path() / "run";
  options.ranks = ranks;
  options.device = device;
  EXPECT_EQ(train(config, options), RunStatus::kFinished);
  FinishedRun run;
  if (ranks && !ranks->is_root()) return run;
  run.end = load_checkpoint(options.output / "checkpoints" / "last");
  std::ifstream lines(options.output / "metrics.jsonl");
  for (std::string line; std::getline(lines, line);) {
    run.steps.push_back(nlohmann::json::parse(line));
  }
  return run;
}

inline const Tensor& named(const NamedTensors& tensors, const std::string& name) {
  const auto found = std::ranges::find(tensors, name, &NamedTensors::value_type::first);
  if (found == tensors.end()) throw Error("no tensor " + name);
  return found->second;
}

// Largest distance of two tensors, relative to the largest value of the second.
inline double relative_distance(const Doubles& a, const Doubles& b) {
  if (a.size() != b.size()) throw Error("tensors of different sizes");
  double apart = 0, largest = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    apart = std::max(apart, std::abs(a[i] - b[i]));
    largest = std::max(largest, std::abs(b[i]));
  }
  return largest > 0 ? apart / largest : apart;
}

}  // namespace dtn::test
