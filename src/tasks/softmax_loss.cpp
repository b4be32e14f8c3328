#include "tasks/softmax_loss.h"

#include <algorithm>
#include <cmath>

#include "core/format.h"
#include "data/classes/class_counts.h"
#include "dtn/core/check.h"
#include "dtn/dist/communicator.h"
#include "dtn/ops/primitive.h"

namespace dtn {

SoftmaxLoss::SoftmaxLoss(const ExperimentConfig& config, Device device)
    : class_weights_(config.train.class_weights),
      kind_(config.train.loss),
      gamma_(config.train.focal_exponent()),
      classes_(config.model.num_classes),
      mixes_(config.augment.mixes()),
      device_(device) {
  const std::vector<double>& given = class_weights_.values;
  if (!given.empty() && static_cast<std::int64_t>(given.size()) == classes_) set_weights(given);
}

void SoftmaxLoss::learn_classes(const SampleSource& training) {
  if (!class_weights_.any()) return;
  if (class_weights_.balanced) return set_weights(balanced_weights(training));
  const auto given = static_cast<std::int64_t>(class_weights_.values.size());
  if (given == classes_) return;
  throw ConfigError(cat("train.class_weights has ", counted(given, "weights"), " for ",
                        counted(classes_, "classes"),
                        "; give one for each class, in the order of the labels, which dtn-data "
                        "stats lists"));
}

void SoftmaxLoss::set_weights(const std::vector<double>& weights) {
  std::vector<float> values(weights.begin(), weights.end());
  weights_ = Tensor::from(values, {classes_}).to(device_);
  const auto [least, most] = std::ranges::minmax(weights);
  lightest_ = least, heaviest_ = most;
}

// Returns N / (K n_c), as scikit-learn does.
std::vector<double> SoftmaxLoss::balanced_weights(const SampleSource& training) const {
  const std::vector<std::int64_t> labels = training.labels();
  if (labels.empty()) {
    throw DataError(cat("train.class_weights: balanced needs a class for each of the ",
                        training.noun(), ", which ", training.description(),
                        " does not have; set class_weights: none"));
  }
  const std::vector<std::int64_t> counts = class_counts(labels, classes_);
  const std::vector<std::string> names = training.class_names();
  std::vector<double> weights;
  for (std::size_t c = 0; c < counts.size(); ++c) {
    if (counts[c] == 0) {
      throw DataError(cat("train.class_weights: balanced has no weight for class ", c,
                          c < names.size() ? cat(" ('", names[c], "')") : "", ", because ",
                          training.description(), " has no ", training.noun(),
                          " of it; leave the class out (data.classes), or give a list of weights"));
    }
    weights.push_back(static_cast<double>(labels.size()) /
                      (static_cast<double>(counts.size()) * static_cast<double>(counts[c])));
  }
  return weights;
}

void SoftmaxLoss::check_learnt() const {
  DTN_CHECK(!class_weights_.any() || weights_.defined(),
            "call learn_classes() before a loss with class weights");
}

SoftmaxLoss::Labels SoftmaxLoss::labels_of_all_ranks(const Context& ctx, Labels own) const {
  if (ctx.ranks.communicator) ctx.ranks.communicator->all_reduce(own.sum);
  return own;
}

void SoftmaxLoss::preview(const Context& ctx, const Tensor& labels, std::size_t part,
                          std::size_t parts) {
  check_learnt();
  if (part == 0) whole_ = {};
  whole_.samples += ctx.ranks.communicator ? ctx.ranks.samples : labels.numel();
  const Tensor sum = ops::sum_class_weights(weights_, labels);
  Context unrecorded;
  whole_.sum = whole_.sum.defined()
                   ? primitive::add(unrecorded, Variable(whole_.sum), Variable(sum)).value()
                   : sum;
  if (part + 1 < parts) return;
  whole_ = labels_of_all_ranks(ctx, whole_);
  parts_left_ = parts;
}

// Returns B / sum w, [1]; 0 if the sum is 0, so that a batch without weight has no loss.
Tensor SoftmaxLoss::samples_per_weight(const Labels& labels) const {
  constexpr double kLeastSum = 1e-30;
  Context none;
  const Variable sum(labels.sum);
  const Variable samples = primitive::constant(sum, static_cast<double>(labels.samples));
  const Variable divisor = primitive::maximum(none, sum, primitive::constant(sum, kLeastSum));
  const Variable counts = primitive::greater(sum, primitive::constant(sum, 0));
  return primitive::mul(none, counts, primitive::div(none, samples, divisor)).value();
}

Variable SoftmaxLoss::loss(Context& ctx, const Variable& logits, const ops::Targets& targets) {
  if (!class_weights_.any() && kind_ == LossKind::kCrossEntropy) {
    return ops::cross_entropy(ctx, logits, targets).mean;
  }
  check_learnt();
  Variable mean = ops::weighted_cross_entropy(ctx, logits, targets, {weights_, gamma_}).mean;
  if (!class_weights_.any() || targets.partner_labels.defined()) return mean;
  Labels batch = whole_;
  if (parts_left_ == 0) {
    batch = {ctx.ranks.communicator ? ctx.ranks.samples : targets.labels.numel(),
             ops::sum_class_weights(weights_, targets.labels)};
    batch = labels_of_all_ranks(ctx, batch);
  } else if (--parts_left_ == 0) {
    whole_ = {};
  }
  return primitive::mul(ctx, mean, Variable(samples_per_weight(batch)));
}

std::string SoftmaxLoss::description() const {
  const double classes = static_cast<double>(classes_);
  const double start = std::pow(1 - 1 / classes, gamma_) * std::log(classes);
  std::string text = kind_ == LossKind::kFocal
                         ? format("focal loss, gamma %g, about %.3g before training", gamma_, start)
                         : format("cross-entropy, about %.3g before training", start);
  if (class_weights_.any()) {
    text += class_weights_.balanced ? "; balanced class weights" : "; class weights";
    if (weights_.defined()) text += format(" from %.3g to %.3g", lightest_, heaviest_);
  }
  return text;
}

}  // namespace dtn
