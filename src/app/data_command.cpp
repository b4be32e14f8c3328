#include "app/data_command.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "app/program.h"
#include "core/format.h"
#include "dtn/config/load.h"
#include "dtn/core/check.h"
#include "dtn/core/log.h"
#include "dtn/core/parallel.h"
#include "dtn/data/datasets.h"
#include "train/stop_signal.h"

namespace dtn::app {

DataCommand::DataCommand() : jobs(max_threads()) {}

void DataCommand::add_to(CLI::App& app) {
  app.add_option("--config", config, "config file or name; its data section is used");
  add_overrides(app, overrides, "override one key of the config (repeatable)");
  app.add_option("--dataset", data.dataset, "without --config: what data.dataset would be")
      ->check(CLI::IsMember({"imagefolder", "imagenet", "webdataset", "packed"}))
      ->capture_default_str();
  app.add_option("--root", data.root, "without --config: data.root");
  app.add_option("--train", data.train, "without --config: data.train");
  app.add_option("--val", data.val, "without --config: data.val");
  app.add_option("--split", split, "train or val")
      ->check(CLI::IsMember({"train", "val"}))
      ->capture_default_str();
  app.add_option("--jobs", jobs, "threads (default: one per core)")->check(CLI::Range(1, 1024));
  app.add_flag("--json", json, "print one JSON object");
}

ExperimentConfig DataCommand::config_of(const Registries& registries) const {
  if (!config.empty()) {
    return load_experiment(find_config(config), overrides, registries.schemas());
  }
  if (data.root.empty()) {
    throw ConfigError("name the data set: --config C, or --root DIR with --dataset NAME");
  }
  if (!overrides.empty()) throw ConfigError("--set needs --config");
  ExperimentConfig made;
  made.data = data;
  made.model.num_classes = 0;  // as many as there are
  return made;
}

std::unique_ptr<Dataset> DataCommand::open(const ExperimentConfig& of,
                                           const Registries& registries) const {
  const Split which = split == "train" ? Split::kTrain : Split::kVal;
  auto dataset = open_dataset(of.data, of.model, which, of.seed, registries.datasets);
  log_info(dataset->description());
  return dataset;
}

std::string megabytes(std::int64_t bytes) {
  return format("%.1f MB", static_cast<double>(bytes) / 1e6);
}

void print_json(const nlohmann::ordered_json& json) {
  // Names of files are bytes; what is not UTF-8 is replaced.
  std::printf("%s\n",
              json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace).c_str());
}

nlohmann::ordered_json bad_json(std::span<const BadSample> bad) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const BadSample& b : bad) {
    list.push_back({{"index", b.index}, {"name", b.name}, {"reason", b.reason}});
  }
  return list;
}

Watch::Watch(const char* title, std::int64_t total, std::int64_t done, const char* noun)
    : bar_(title, total, done), first_(done), noun_(noun) {}

bool Watch::update(std::int64_t done, const std::string& more) {
  const std::chrono::duration<double> passed = Clock::now() - start_;
  const std::string rate = format(
      "%.0f %s/s", static_cast<double>(done - first_) / std::max(passed.count(), 1e-3), noun_);
  bar_.update(done, more.empty() ? rate : rate + ("  " + more));
  return !stop_requested();
}

}  // namespace dtn::app
