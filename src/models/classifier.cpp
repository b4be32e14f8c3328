#include "dtn/models/classifier.h"

#include "dtn/ops/primitive.h"

namespace dtn {
namespace {

std::optional<Linear> make_head(const Scope& scope, std::int64_t channels, int classes) {
  if (classes == 0) return {};
  return Linear(scope, channels, classes);
}

}  // namespace

Classifier::Classifier(const ModelConfig& config, std::uint64_t seed, DType dtype, Device device,
                       const ModelRegistry& models, const NormRegistry& norms)
    : config_(config),
      backbone_(models.at(config.family).make({store_, "", &norms}, config)),
      head_(make_head({store_, "head"}, backbone_->stages().back().channels, config.num_classes)),
      head_dist_(make_head({store_, "head_dist"}, backbone_->stages().back().channels,
                           config.distilled ? config.num_classes : 0)) {
  store_.allocate(dtype, device);
  store_.initialize(seed);
}

Variable Classifier::forward(Context& ctx, const Fields& fields) {
  return logits(ctx, features(ctx, fields));
}

Variable Classifier::logits(Context& ctx, const std::vector<Variable>& features) {
  return mean_of(ctx, head_ ? head_logits(ctx, features) : features);
}

Variable Classifier::mean_of(Context& ctx, const std::vector<Variable>& each) {
  if (each.size() == 1) return each.front();
  const Variable sum = primitive::add(ctx, primitive::widen(ctx, each[0]), each[1]);
  return primitive::cast(ctx, primitive::affine(ctx, sum, 0.5), each[0].dtype());
}

std::vector<Variable> Classifier::head_logits(Context& ctx, const std::vector<Variable>& features) {
  DTN_CHECK(head_, "a model without a head has no logits");
  std::vector<Variable> logits = {head_->forward(ctx, features.front())};
  if (head_dist_) logits.push_back(head_dist_->forward(ctx, features.at(1)));
  return logits;
}

std::int64_t Classifier::outputs() const {
  return head_ ? config_.num_classes : backbone_->stages().back().channels;
}

}  // namespace dtn
