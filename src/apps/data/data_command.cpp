#include "apps/data/data_command.h"

#include <algorithm>
#include <cstdio>

#include "apps/common/json_files.h"
#include "apps/common/program.h"
#include "config/codec.h"
#include "core/format.h"
#include "core/seconds_since.h"
#include "core/stop_signal.h"
#include "core/text.h"
#include "dtn/config/load.h"
#include "dtn/core/check.h"
#include "dtn/core/log.h"
#include "dtn/core/parallel.h"
#include "dtn/data/datasets.h"

namespace dtn::app {

DataCommand::DataCommand() : jobs(max_threads()) {}

void DataCommand::add_to(CLI::App& app) {
  app.add_option("--config", config, "config file or name; only its data section is used");
  add_overrides(app, overrides, "override one key of the config (repeatable)");
  app.add_option("--dataset", dataset, "data.dataset; overrides the config")
      ->check(CLI::IsMember({"imagefolder", "imagenet", "webdataset", "packed"}))
      ->default_str("imagefolder");
  app.add_option("--root", root, "data.root; overrides the config");
  app.add_option("--train", train, "data.train; overrides the config");
  app.add_option("--val", val, "data.val; overrides the config");
  app.add_option("--labels", labels, "data.labels; overrides the config");
  app.add_option("--hold-out", hold_out, "data.split; overrides the config")
      ->check([](const std::string& text) {
        const auto share = parse_number<double>(text);
        return share && *share > 0 && *share < 1 ? "" : "must be in (0, 1), not " + text;
      });
  add_choice(app, "--split", split, {"train", "val"}, "train or val");
  app.add_option("--jobs", jobs, "threads (default: one per core)")->check(CLI::Range(1, 1024));
  app.add_flag("--json", json, "print one JSON object");
}

void DataCommand::add_task_to(CLI::App& app) {
  app.add_option("--task", task,
                 "classify: one class for each image; multilabel: any number (default: the task of "
                 "the config, else classify)")
      ->check(CLI::IsMember({"classify", "multilabel"}));
}

ExperimentConfig DataCommand::config_of(const Registries& registries) const {
  if (!config.empty()) {
    std::vector<std::string> all = overrides;
    const auto set = [&](const char* key, const std::optional<std::string>& value) {
      if (value) all.push_back(cat("data.", key, "=", config::string_text(*value)));
    };
    set("dataset", dataset);  // first: a change of the data set resets the splits that follow
    set("root", root.empty() ? std::nullopt : std::optional(root));
    set("train", train);
    set("val", val);
    set("labels", labels);
    if (hold_out) all.push_back(cat("data.split=", config::number_text(*hold_out)));
    const ConfigSchemas schemas = registries.schemas();
    ExperimentConfig loaded = load_experiment(find_config(config, schemas), all, schemas);
    if (task) loaded.task = *task;
    if (loaded.data.label_sets.empty()) return loaded;
    // The images themselves, each once.
    loaded.data.label_sets.clear();
    loaded.model.num_classes = 0;
    loaded.model.condition = {};
    return loaded;
  }
  if (root.empty()) {
    throw ConfigError("no data set given; use --config CONFIG, or --root DIR with --dataset NAME");
  }
  if (!overrides.empty()) throw ConfigError("--set needs --config");
  if ((labels || hold_out) && dataset.value_or("imagefolder") != "imagefolder") {
    throw ConfigError("--labels and --hold-out are for --dataset imagefolder");
  }
  ExperimentConfig made;
  if (dataset) made.data.dataset = *dataset;
  made.data.root = root;
  made.data.train = train;
  made.data.val = val;
  made.data.labels = labels;
  made.data.split = hold_out;
  made.model.num_classes = 0;  // count them
  if (task) made.task = *task;
  return made;
}

std::unique_ptr<Dataset> DataCommand::open(const ExperimentConfig& of,
                                           const Registries& registries) const {
  const auto open = of.task == "multilabel" ? open_multilabel : open_dataset;
  auto opened = open(of.data, of.model, chosen_split(), of.seed, registries.datasets);
  log_info(opened->description());
  return opened;
}

std::unique_ptr<Dataset> DataCommand::open_to_inspect(const Registries& registries) const {
  const ExperimentConfig of = config_of(registries);
  const auto open = of.task == "multilabel" ? open_multilabel : open_unlabelled;
  auto opened = open(of.data, of.model, chosen_split(), of.seed, registries.datasets);
  log_info(opened->description());
  return opened;
}

void print_json(const nlohmann::ordered_json& json) { std::fputs(json_text(json).c_str(), stdout); }

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
  const double passed = std::max(seconds_since(start_), 1e-3);
  const std::string rate = format("%.0f %s/s", static_cast<double>(done - first_) / passed, noun_);
  bar_.update(done, more.empty() ? rate : rate + ("  " + more));
  return !stop_requested();
}

}  // namespace dtn::app
