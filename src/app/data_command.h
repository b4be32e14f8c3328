// What the verbs of dtn-data share.
#pragma once

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/listops/write_files.h"
#include "data/source/inspect.h"
#include "dtn/config/train_config.h"
#include "dtn/tasks/registries.h"
#include "train/progress.h"

namespace dtn::app {

// Which images of which data set, and how to look at them.
struct DataCommand {
  std::string config, split = "train";
  std::vector<std::string> overrides;
  std::string root;  // in place of a config, or above the config's, as are the next three
  std::optional<std::string> dataset, train, val;
  bool json = false;
  int jobs;

  DataCommand();  // one job for each core
  void add_to(CLI::App& app);
  // Throws ConfigError when neither a config nor a root is named.
  ExperimentConfig config_of(const Registries& registries) const;
  // Says on standard error which it is.
  std::unique_ptr<Dataset> open(const ExperimentConfig& config, const Registries& registries) const;
};

std::string megabytes(std::int64_t bytes);
void print_json(const nlohmann::ordered_json& json);
nlohmann::ordered_json bad_json(std::span<const BadSample> bad);

// A bar that shows images, or whatever `noun` says, per second, and ends the work when a signal asks for it.
class Watch {
 public:
  Watch(const char* title, std::int64_t total, std::int64_t done, const char* noun = "images");
  // False once a signal has come.
  bool update(std::int64_t done, const std::string& more = {});
  void clear() { bar_.clear(); }

 private:
  using Clock = std::chrono::steady_clock;
  ProgressBar bar_;
  std::int64_t first_;
  const char* noun_;
  Clock::time_point start_ = Clock::now();
};

// `dtn-data corrupt`.
class CorruptCommand {
 public:
  // The subcommand.
  CLI::App* add_to(CLI::App& app);
  int run(const Registries& registries) const;

 private:
  std::unique_ptr<Dataset> open(const Registries& registries) const;

  DataCommand data_;
  std::string output_, corruptions_, severities_ = "1-5", format_ = "jpeg", frost_dir_;
  std::uint64_t seed_ = 0;
  bool dry_run_ = false;
};

// `dtn-data listops`.
class ListopsCommand {
 public:
  // The subcommand.
  CLI::App* add_to(CLI::App& app);
  int run() const;

 private:
  listops::WriteOptions options_;
  std::string output_;
  bool json_ = false;
};

}  // namespace dtn::app
