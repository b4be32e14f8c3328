#include "apps/common/num_classes.h"

#include "data/classes/match_classes.h"
#include "dtn/core/check.h"
#include "dtn/core/log.h"

namespace dtn::app {

void take_num_classes(ExperimentConfig& config, const Registries& registries) {
  if (config.task != "classify") return;
  std::int64_t classes = 0;
  try {
    classes = count_classes(config.data, config.model, config.seed, registries.datasets);
  } catch (const DataError&) {
    return;  // opening the data set later reports the error
  }
  if (classes == 0 || classes == config.model.num_classes) return;
  config.model.num_classes = static_cast<int>(classes);
  log_info(cat("model.num_classes: ", classes, ", from the training data (not set in the config)"));
}

}  // namespace dtn::app
