#include "tasks/translate/checks.h"

#include "dtn/core/check.h"
#include "tasks/translate/data_checks.h"

namespace dtn {

std::optional<ConfigProblem> translate_problem(const ExperimentConfig& config) {
  const TranslateConfig& w = config.translate;
  if (w.l1 + w.l2 + w.charbonnier <= 0) {
    return ConfigProblem{{"translate.l1", "translate.l2", "translate.charbonnier"},
                         "translate has no loss, as the weights l1, l2 and charbonnier are all 0; "
                         "set one of them above 0"};
  }
  return translate_data_problem(config);
}

}  // namespace dtn
