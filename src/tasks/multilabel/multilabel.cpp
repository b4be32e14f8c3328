#include "dtn/tasks/multilabel.h"

#include <cmath>

#include "core/format.h"
#include "data/classes/label_columns.h"
#include "dtn/core/check.h"
#include "dtn/data/datasets.h"
#include "dtn/io/safetensors.h"
#include "dtn/ops/loss.h"
#include "dtn/ops/tokens.h"
#include "dtn/tasks/registries.h"
#include "tasks/multilabel/meter.h"
#include "tasks/multilabel/threshold.h"

namespace dtn {

Multilabel::Multilabel(const TaskSetup& setup) : Classify(setup) {}

std::shared_ptr<const Dataset> Multilabel::open(Split split) const {
  const ExperimentConfig& c = config();
  const DatasetRegistry& datasets = registries().datasets;
  if (c.model.num_classes > 0 && classes()) {
    return open_multilabel_for(c.data, c.model, split, c.seed, datasets, *classes());
  }
  return open_multilabel(c.data, c.model, split, c.seed, datasets);
}

Variable Multilabel::loss(Context& ctx, const Fields& batch, std::vector<Term>&) {
  const Variable logits = ops::cast(ctx, model().forward(ctx, batch), DType::kFloat32);
  return ops::binary_cross_entropy(ctx, logits, {.labels = {}, .soft = batch.at("labels")}).mean;
}

std::unique_ptr<Meter> Multilabel::meter() const {
  return std::make_unique<MultilabelMeter>(config().model.num_classes, threshold_);
}

std::vector<std::string> Multilabel::load_weights(const std::string& file, WeightsUse use) {
  std::vector<std::string> notes = Classify::load_weights(file, use);
  if (use == WeightsUse::kTraining) return notes;
  const TensorFile header = read_safetensors(file, {.verify_checksums = false, .map = true});
  const std::optional<double> stored = stored_threshold(header.metadata);
  threshold_ = stored.value_or(kUsualThreshold);
  if (!stored) {
    notes.push_back(cat("the file has no threshold, so F1 is measured at ", kUsualThreshold));
  }
  return notes;
}

std::string Multilabel::objective() const {
  return format("binary cross-entropy, mean over the classes, about %.3g before training",
                std::log(2.0));
}

}  // namespace dtn
