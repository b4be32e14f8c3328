// A backbone with a head for classes, for most a linear layer: head.weight [K, C], head.bias [K]; of
// a distilled model with a second one, head_dist; or with none.
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
  // `dtype` is that of the master weights: float32, or float64 for tests. `norms` must outlive the
  // model. Throws ConfigError when the configuration makes no model.
  Classifier(const ModelConfig& config, std::uint64_t seed, DType dtype = DType::kFloat32,
             Device device = kCpu, const ModelRegistry& models = model_registry(),
             const NormRegistry& norms = norm_registry());

  // Logits [B, num_classes] in ctx.mode.compute, of the fields that the backbone reads; its
  // features [B, C] where num_classes is 0.
  Variable forward(Context&, const Fields&);
  // The same of images alone, [B, channels, height, width].
  Variable forward(Context& ctx, const Tensor& images) { return forward(ctx, {{"image", images}}); }

  // forward() in two steps: what each head sees, [B, C], and what the heads make of it; or the mean
  // of what they see, which is what there is without them.
  std::vector<Variable> features(Context& ctx, const Fields& fields) {
    return backbone_->pooled_each(ctx, fields);
  }
  Variable logits(Context&, const std::vector<Variable>& features);
  static Variable mean_of(Context&, const std::vector<Variable>& features);

  // The logits of each head; forward() gives their mean. Not with num_classes 0.
  std::vector<Variable> forward_heads(Context& ctx, const Fields& fields) {
    return head_logits(ctx, features(ctx, fields));
  }
  // Whether a parameter or buffer is one of a head's.
  bool is_head(const std::string& name) const { return head_names_.contains(name); }
  // True for a parameter of a head that has a row for each class: its last linear layer's.
  bool has_class_rows(const std::string& name) const { return class_rows_.contains(name); }
  // The width of what forward() gives.
  std::int64_t outputs() const;

  const ModelConfig& config() const { return config_; }
  // The family's row of the registry.
  const ModelRow& family() const { return row_; }
  std::string note() const { return backbone_->note(); }
  Backbone& backbone() { return *backbone_; }
  ParameterStore& parameters() { return store_; }
  const ParameterStore& parameters() const { return store_; }

  // Adds the backbone's parameters under another configuration of this family to a store, which is
  // not allocated: their names, shapes and positions. Throws ConfigError when it makes no model.
  void describe(const ModelConfig& config, ParameterStore& store) const;

 private:
  std::vector<Variable> head_logits(Context&, const std::vector<Variable>& features);

  ModelConfig config_;
  ModelRow row_;
  const NormRegistry* norms_;
  ParameterStore store_;
  std::unique_ptr<Backbone> backbone_;
  std::vector<std::unique_ptr<ClassHead>> heads_;  // none with num_classes 0
  std::set<std::string> head_names_;               // of their parameters and buffers
  std::set<std::string> class_rows_;               // parameters with a row for each class
};

}  // namespace dtn
