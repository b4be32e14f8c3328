#include "apps/average/ingredients.h"

#include <filesystem>
#include <set>
#include <utility>

#include "dtn/core/check.h"
#include "dtn/core/log.h"
#include "dtn/models/weights.h"
#include "dtn/tasks/registries.h"
#include "tasks/class_names.h"
#include "tasks/ensemble.h"

namespace dtn::app {
namespace {

namespace fs = std::filesystem;

// The model of a config without what only training reads.
ModelConfig as_used(ModelConfig model) {
  const ModelConfig plain;
  model.drop_path = plain.drop_path;
  model.drop_path_mode = plain.drop_path_mode;
  model.dropout = plain.dropout;
  model.label_dropout = plain.label_dropout;
  model.init_weights = plain.init_weights;
  model.init_head = plain.init_head;
  model.init_image_size = plain.init_image_size;
  return model;
}

void check_same_model(const ExperimentConfig& first, const ExperimentConfig& other,
                      const std::string& named) {
  if (first.task != other.task) {
    throw ConfigError(cat(named, ": its task is ", other.task, ", that of the first is ",
                          first.task, "; only models of one task can be averaged"));
  }
  ExperimentConfig a = first, b = first;
  a.model = as_used(first.model);
  b.model = as_used(other.model);
  if (a.model == b.model) return;
  const std::vector<std::string> differences = config_differences(a, b);
  throw ConfigError(cat(named, ": another model than the first, so a mean has no meaning: ",
                        differences.empty() ? "the presets differ" : differences.front()));
}

}  // namespace

Ingredients::Ingredients(std::vector<std::string> checkpoints, const WeightsOptions& options,
                         const Registries& registries)
    : checkpoints_(std::move(checkpoints)), noted_(checkpoints_.size()) {
  std::set<fs::path> seen;
  for (const std::string& named : checkpoints_) {
    WeightsOptions one = options;
    one.checkpoint = named;
    const fs::path file = fs::canonical(one.trained_file(registries));
    if (!seen.insert(file).second) {
      throw ConfigError(cat(named, ": the file ", file.string(),
                            " is named twice; --shares gives a model more weight"));
    }
    const TensorFile head = read_safetensors(file, {.verify_checksums = false, .map = true});
    const ExperimentConfig config = one.config_of(head, registries.schemas());
    const auto names = stored_class_names(head.metadata, config.model.num_classes);
    if (files_.empty()) config_ = config;
    check_same_model(config_, config, named);
    check_same_classes(class_names_, names, named);
    if (class_names_.empty()) class_names_ = names;
    files_.push_back(file);
    configs_.push_back(config);
  }
  task_ = make_task({config_, kCpu, registries});
}

Tensor Ingredients::weights(std::size_t i) {
  const auto notes = task_->load_weights(files_[i].string(), WeightsUse::kEvaluation);
  if (!noted_[i]) {
    for (const std::string& note : notes) log_info(cat(name(i), ": ", note));
  }
  noted_[i] = true;
  return store().values().clone();
}

ParameterStore& Ingredients::store() const {
  ParameterStore* averaged = task_->averaged();
  return averaged ? *averaged : *task_->stores().front().value;
}

void Ingredients::warn_of_other_splits() const {
  for (std::size_t i = 1; i < configs_.size(); ++i) {
    warn_of_other_split(config_, configs_[i], name(i));
  }
}

bool Ingredients::has_statistics() const { return !store().buffers().empty(); }

NamedTensors Ingredients::named(const Tensor& weights) const {
  return named_weights(store(), weights);
}

}  // namespace dtn::app
