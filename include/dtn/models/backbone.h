// What every model family offers: features of an input, as tokens, stage by stage.
#pragma once

#include <memory>
#include <vector>

#include "dtn/autograd/context.h"
#include "dtn/config/schemas.h"
#include "dtn/core/fields.h"
#include "dtn/core/registry.h"
#include "dtn/io/safetensors.h"
#include "dtn/nn/observer.h"
#include "dtn/nn/scope.h"
#include "dtn/nn/tokens.h"

namespace dtn {

struct StageShape {
  std::int64_t channels;
  std::int64_t stride;  // pixels of the input from one token to the next
};

// From the pooled vector of each sample [B, C] to logits [B, K].
class ClassHead {
 public:
  virtual ~ClassHead() = default;
  virtual Variable forward(Context&, const Variable& x) const = 0;
};
// A linear layer with bias, whose parameters lie in the scope.
std::unique_ptr<ClassHead> make_linear_head(const Scope&, std::int64_t channels, int classes);

class Backbone {
 public:
  virtual ~Backbone() = default;

  // The fields that the model reads, such as "image" [channels, H, W] float32 (float64 with float64
  // weights), already normalised, of the sizes it was made for.
  virtual std::vector<FieldSpec> inputs() const = 0;
  // Features of those fields. Activations are computed in ctx.mode.compute.
  virtual Features forward(Context&, const Fields&) = 0;
  // One vector for each sample, [B, C of the last stage]: what a head for whole samples sees. A
  // family computes no more than that takes, unless ctx.mode.skip_unread is off.
  virtual Variable pooled(Context&, const Fields&) = 0;
  // The same for each of several heads, where a model has more than one.
  virtual std::vector<Variable> pooled_each(Context& ctx, const Fields& fields) {
    return {pooled(ctx, fields)};
  }
  virtual std::vector<StageShape> stages() const = 0;
  // What people should know of how this model runs; empty: nothing.
  virtual std::string note() const { return {}; }
  // The layers that an Observer is shown in every pass, in that order; none: nothing is shown.
  virtual std::vector<LayerInfo> layers() const { return {}; }
  // The heads of a classifier with so many classes, one for each of pooled_each().
  virtual std::vector<std::unique_ptr<ClassHead>> make_heads(const Scope&, int classes) const;
};

// What a family knows of weights that others have trained.
struct ForeignWeights {
  // Tensors under the names of the parameters here, with notes for people of what was left out or
  // put together; null: they have these names already.
  NamedTensors (*renamed)(const NamedTensors&, std::vector<std::string>& notes) = nullptr;
  // A tensor of a file that is no weight, such as a table that is computed here.
  bool (*skips)(const std::string& name) = nullptr;
};

struct ModelRow {
  ModelSchema schema;
  // Adds its parameters to the scope. Throws ConfigError when the configuration makes no model.
  std::unique_ptr<Backbone> (*make)(const Scope&, const ModelConfig&);
  ForeignWeights weights{};

  const std::string& name() const { return schema.family; }
};

using ModelRegistry = Registry<ModelRow>;

// Ours.
const ModelRegistry& model_registry();

}  // namespace dtn
