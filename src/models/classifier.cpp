#include "dtn/models/classifier.h"

#include <algorithm>
#include <iterator>

#include "core/format.h"
#include "dtn/core/check.h"
#include "dtn/nn/linear.h"
#include "dtn/ops/primitive.h"

namespace dtn {
namespace {

std::set<std::string> names_in(const ParameterStore& store) {
  std::set<std::string> names;
  for (const Parameter& p : store.parameters()) names.insert(p.name);
  for (const Buffer& b : store.buffers()) names.insert(b.name);
  return names;
}

// Returns the parameters that grow with the number of classes. Finds them by making the heads for
// one more class.
std::set<std::string> names_of_class_rows(const Backbone& backbone, const NormRegistry& norms,
                                          const ParameterStore& store, int classes) {
  ParameterStore larger;
  const auto heads = backbone.make_heads(Scope{larger, "", &norms}, classes + 1);
  std::set<std::string> names;
  for (const Parameter& p : larger.parameters()) {
    const auto same = std::ranges::find(store.parameters(), p.name, &Parameter::name);
    if (same != store.parameters().end() && !(same->shape == p.shape)) names.insert(p.name);
  }
  return names;
}

// Throws ConfigError if the normalizer needs what models of the family do not have.
void check_needs(const NormConfig& norm, const NormRegistry& norms, const ModelSchema& family) {
  const NormSchema& schema = norms.at(norm.type).schema;
  if (schema.needs.empty() || std::ranges::count(family.meets, norm.type) > 0) return;
  throw ConfigError(cat("'", norm.type, "' needs ", schema.needs, ", which models of the family ",
                        family.family, " do not have"));
}

}  // namespace

ClassHead make_linear_head(const Scope& scope, std::int64_t channels, int classes) {
  return [linear = Linear(scope, channels, classes)](Context& ctx, const Variable& x) {
    return linear.forward(ctx, x);
  };
}

std::vector<BlockOutput> Backbone::last_blocks(Context&, const Fields&, int count) {
  throw ConfigError(cat("this model gives its pooled vector only; the outputs of the last ",
                        counted(count, "blocks"),
                        " are for vision transformers (vit), whose blocks share their width and "
                        "last norm; use --blocks 1 without --avgpool"));
}

std::vector<ClassHead> Backbone::make_heads(const Scope& scope, int classes) const {
  return {make_linear_head(scope / "head", stages().back().channels, classes)};
}

std::string Backbone::size_problem(const ImageSize& size) const {
  for (const FieldSpec& field : inputs()) {
    if (field.name != "image" || field.row.rank() != 3) continue;
    if (field.row[1] == size.height && field.row[2] == size.width) return {};
    return cat("it is built for images of ", field.row[1], " x ", field.row[2], " pixels only");
  }
  return "it reads no images";
}

Classifier::Classifier(const ModelConfig& config, std::uint64_t seed, DType dtype, Device device,
                       const ModelRegistry& models, const NormRegistry& norms)
    : config_(config), row_(models.at(config.family)), norms_(&norms) {
  config_.detector = {};  // of another model on the same backbone
  check_needs(config_.norm, norms, row_.schema);
  if (config_.decoder_norm) check_needs(*config_.decoder_norm, norms, row_.schema);
  const Scope root{store_, "", &norms};
  backbone_ = row_.make(root, config_);
  const std::set<std::string> before = names_in(store_);
  const bool reads_classes = dynamic_cast<const ImageModel*>(backbone_.get()) != nullptr;
  if (config.num_classes > 0 && !reads_classes) {
    heads_ = backbone_->make_heads(root, config.num_classes);
    class_rows_ = names_of_class_rows(*backbone_, norms, store_, config.num_classes);
  }
  std::ranges::set_difference(names_in(store_), before,
                              std::inserter(head_names_, head_names_.end()));
  for (Parameter& p : store_.parameters()) p.head = is_head(p.name);
  store_.allocate(dtype, device);
  store_.initialize(seed);
}

void Classifier::describe(const ModelConfig& config, ParameterStore& store) const {
  row_.make(Scope{store, "", norms_}, config);
}

Variable Classifier::forward(Context& ctx, const Fields& fields) {
  return logits(ctx, features(ctx, fields));
}

Variable Classifier::logits(Context& ctx, const std::vector<Variable>& features) {
  return mean_of(ctx, heads_.empty() ? features : head_logits(ctx, features));
}

Variable Classifier::mean_of(Context& ctx, const std::vector<Variable>& each) {
  if (each.size() == 1) return each.front();
  const Variable sum = primitive::add(ctx, primitive::upcast(ctx, each[0]), each[1]);
  return primitive::cast(ctx, primitive::affine(ctx, sum, 0.5), each[0].dtype());
}

std::vector<Variable> Classifier::head_logits(Context& ctx, const std::vector<Variable>& features) {
  DTN_CHECK(!heads_.empty(), "a model without a head has no logits");
  DTN_CHECK(heads_.size() == features.size(), heads_.size(), " heads for ", features.size(),
            " pooled vectors");
  std::vector<Variable> logits;
  for (std::size_t i = 0; i < heads_.size(); ++i) {
    logits.push_back(heads_[i](ctx, features[i]));
  }
  return logits;
}

std::int64_t Classifier::outputs() const {
  return heads_.empty() ? backbone_->stages().back().channels : config_.num_classes;
}

}  // namespace dtn
