// A backbone with a classification head. Most heads are a linear layer: head.weight [K, C],
// head.bias [K]. A distilled model has a second head, head_dist. A model may have no head. An
// ImageModel has none: its classes are inputs.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "dtn/models/backbone.h"
#include "dtn/nn/normalizer.h"
#include "dtn/nn/parameters.h"

namespace dtn {

class Classifier {
 public:
  // Builds and initialises the model on a device; the same seed gives the same weights on each.
  // `dtype` is the type of the master weights: float32, or float64 for tests. `norms` must outlive
  // the model. Throws ConfigError if the configuration is invalid.
  Classifier(const ModelConfig& config, std::uint64_t seed, DType dtype = DType::kFloat32,
             Device device = kCpu, const ModelRegistry& models = model_registry(),
             const NormRegistry& norms = norm_registry());

  // Logits [B, num_classes] in ctx.mode.compute, from the backbone's input fields. Without a head,
  // the features [B, C].
  Variable forward(Context&, const Fields&);
  // The same for images [B, channels, height, width].
  Variable forward(Context& ctx, const Tensor& images) { return forward(ctx, {{"image", images}}); }

  // The two steps of forward(): the input of each head, [B, C], then the logits. mean_of() is the
  // result of a model without heads.
  std::vector<Variable> features(Context& ctx, const Fields& fields) {
    return backbone_->pooled_each(ctx, fields);
  }
  // The mean of the heads' logits, [B, num_classes]; without a head, the mean of the features.
  Variable logits(Context&, const std::vector<Variable>& features);
  // The mean of one or two values for each sample.
  static Variable mean_of(Context&, const std::vector<Variable>& features);

  // The logits of each head; forward() returns their mean. Throws Error without a head.
  std::vector<Variable> forward_heads(Context& ctx, const Fields& fields) {
    return head_logits(ctx, features(ctx, fields));
  }
  // True for a parameter or buffer of a head.
  bool is_head(const std::string& name) const { return head_names_.contains(name); }
  // True for a head parameter with a row for each class: those of its last linear layer.
  bool has_class_rows(const std::string& name) const { return class_rows_.contains(name); }
  // The number of columns of forward()'s result.
  std::int64_t outputs() const;

  const ModelConfig& config() const { return config_; }
  // The family's entry of the registry.
  const ModelEntry& family() const { return row_; }
  std::string note() const { return backbone_->note(); }
  Backbone& backbone() { return *backbone_; }
  ParameterStore& parameters() { return store_; }
  const ParameterStore& parameters() const { return store_; }

  // Adds the backbone's parameters under another configuration of the family to a store, without
  // allocating it: names, shapes and positions. Throws ConfigError if the configuration is invalid.
  void describe(const ModelConfig& config, ParameterStore& store) const;

 private:
  std::vector<Variable> head_logits(Context&, const std::vector<Variable>& features);

  ModelConfig config_;
  ModelEntry row_;
  const NormRegistry* norms_;
  ParameterStore store_;
  std::unique_ptr<Backbone> backbone_;
  std::vector<ClassHead> heads_;      // none with num_classes 0, or for an ImageModel
  std::set<std::string> head_names_;  // of their parameters and buffers
  std::set<std::string> class_rows_;  // parameters with a row for each class
};

}  // namespace dtn
