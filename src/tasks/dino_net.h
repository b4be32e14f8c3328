// A backbone with DINO's projection head, in a store of their own: the student or the teacher.
#pragma once

#include <memory>
#include <string>

#include "dtn/config/train_config.h"
#include "dtn/models/backbone.h"
#include "dtn/nn/linear.h"
#include "dtn/tasks/task.h"

namespace dtn {

// Three linear layers with GELU between them, an L2 normalization, and a last layer whose weight is
// normalized: row k is g_k v_k / |v_k|. Parameters: mlp.{0,2,4}.{weight,bias},
// last_layer.weight_g [K, 1] and last_layer.weight_v [K, bottleneck].
class DinoHead {
 public:
  DinoHead(const Scope& scope, std::int64_t channels, const DinoConfig& config);

  // x [n, C] -> [n, K], the products with v alone. Logit k is that value times g_k / |v_k|.
  Variable raw_logits(Context& ctx, const Variable& x) const;

  const Variable& direction() const { return direction_->variable; }  // v
  const Variable& gain() const { return gain_->variable; }            // g
  // Names of all parameters of the last layer begin with this.
  static std::string last_layer(const Scope& scope) { return scope.name("last_layer."); }

 private:
  Linear in_, hidden_, out_;
  Parameter *gain_, *direction_;
};

// The parameters backbone.* and head.*.
struct DinoNet {
  // Adds the parameters to the store. All weights decay but biases and vectors.
  DinoNet(const TaskSetup& setup, const ModelConfig& model);

  ParameterStore store;
  std::unique_ptr<Backbone> backbone;
  DinoHead head;
};

}  // namespace dtn
