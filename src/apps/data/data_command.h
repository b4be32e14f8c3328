// Parts that the subcommands of dtn-data share.
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

#include "core/progress.h"
#include "data/listops/write_files.h"
#include "data/shapes/write_shapes.h"
#include "data/source/inspect.h"
#include "dtn/config/train_config.h"
#include "dtn/tasks/registries.h"

namespace dtn::app {

// Selects the images of a data set, and the way they are read.
struct DataCommand {
  std::string config, split = "train";
  std::vector<std::string> overrides;
  // Used without a config, or in place of the config's values: root, dataset, train, val,
  // labels, hold_out (data.split).
  std::string root;
  std::optional<std::string> dataset, train, val, labels;
  std::optional<std::string> task;  // classify or multilabel; unset: the config's
  std::optional<double> hold_out;
  bool json = false;
  int jobs;

  DataCommand();  // sets one job per core
  void add_to(CLI::App& app);
  // Adds `--task`, for a command that reads images with any number of labels.
  void add_task_to(CLI::App& app);
  // Throws ConfigError if neither a config nor a root is given.
  ExperimentConfig config_of(const Registries& registries) const;
  // Opens the data set, and logs its description to standard error.
  std::unique_ptr<Dataset> open(const ExperimentConfig& config, const Registries& registries) const;
  // The same for images that may have no labels.
  std::unique_ptr<Dataset> open_to_inspect(const Registries& registries) const;

 private:
  Split chosen_split() const { return split == "train" ? Split::kTrain : Split::kVal; }
};

void print_json(const nlohmann::ordered_json& json);
nlohmann::ordered_json bad_json(std::span<const BadSample> bad);

// Progress bar with images (or `noun`) per second. A signal makes it stop the work.
class Watch {
 public:
  Watch(const char* title, std::int64_t total, std::int64_t done, const char* noun = "images");
  // Returns false after a signal.
  bool update(std::int64_t done, const std::string& more = {});
  void clear() { bar_.clear(); }

 private:
  ProgressBar bar_;
  std::int64_t first_;
  const char* noun_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// `dtn-data corrupt`.
class CorruptCommand {
 public:
  // Adds the subcommand to `app` and returns it.
  CLI::App* add_to(CLI::App& app);
  int run(const Registries& registries) const;

 private:
  std::unique_ptr<Dataset> open(const Registries& registries) const;

  DataCommand data_;
  std::string output_, corruptions_, severities_ = "1-5", format_ = "jpeg", frost_dir_;
  std::uint64_t seed_ = 0;
  bool dry_run_ = false;
};

// `dtn-data preview`.
class PreviewCommand {
 public:
  // Adds the subcommand to `app` and returns it.
  CLI::App* add_to(CLI::App& app);
  int run(const Registries& registries) const;

 private:
  std::string config_, output_;
  std::vector<std::string> overrides_;
  std::int64_t images_ = 6;
  std::optional<std::int64_t> epochs_;
};

// `dtn-data listops`.
class ListopsCommand {
 public:
  // Adds the subcommand to `app` and returns it.
  CLI::App* add_to(CLI::App& app);
  int run() const;

 private:
  listops::WriteOptions options_;
  std::string output_;
  bool json_ = false;
};

// `dtn-data shapes`.
class ShapesCommand {
 public:
  // Adds the subcommand to `app` and returns it.
  CLI::App* add_to(CLI::App& app);
  int run() const;

 private:
  shapes::ShapesOptions options_;
  std::string output_;
  bool json_ = false;
};

}  // namespace dtn::app
