#include "apps/eval/ensemble_models.h"

#include <filesystem>
#include <utility>

#include "core/format.h"
#include "dtn/core/check.h"
#include "dtn/core/log.h"
#include "tasks/class_names.h"
#include "tasks/ensemble.h"

namespace dtn::app {
namespace {

std::unique_ptr<Classify> load_member(const TaskSetup& setup, const TensorFile& first,
                                      const std::string& named, const WeightsOptions& options) {
  WeightsOptions own = options;
  own.checkpoint = named;
  const std::filesystem::path file = own.file(setup.registries.schemas());
  const TensorFile weights = read_safetensors(file);
  const ExperimentConfig config = own.config_of(weights, setup.registries.schemas());
  check_joins_ensemble(setup.config, config, named, setup.registries.datasets);
  warn_of_other_split(setup.config, config, named);
  const std::int64_t classes = config.model.num_classes;
  check_same_classes(stored_class_names(first.metadata, classes),
                     stored_class_names(weights.metadata, classes), named);
  auto member = std::make_unique<Classify>(TaskSetup{config, setup.device, setup.registries});
  const std::string path = std::filesystem::canonical(file).string();
  log_info(cat("weights: ", path));
  for (const std::string& note : member->load_weights(file.string(), WeightsUse::kEvaluation)) {
    log_info(cat(named, ": ", note));
  }
  return member;
}

}  // namespace

std::unique_ptr<Task> make_ensemble(const TaskSetup& setup, const TensorFile& weights,
                                    const std::vector<std::string>& others,
                                    const WeightsOptions& options) {
  check_joins_ensemble(setup.config, setup.config, options.checkpoint, setup.registries.datasets);
  if (setup.config.model.num_classes == 0) {
    throw ConfigError("an ensemble needs models with classes; model.num_classes is 0");
  }
  std::vector<std::unique_ptr<Classify>> members;
  for (const std::string& named : others) {
    members.push_back(load_member(setup, weights, named, options));
  }
  log_info(
      cat("ensemble: the mean of the probabilities of ", counted(members.size() + 1, "models")));
  return std::make_unique<Ensemble>(setup, std::move(members));
}

}  // namespace dtn::app
