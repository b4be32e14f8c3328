// What every model family offers: features of an input, as tokens, stage by stage.
#pragma once

#include <memory>
#include <vector>

#include "dtn/autograd/context.h"
#include "dtn/config/model_config.h"
#include "dtn/core/fields.h"
#include "dtn/core/registry.h"
#include "dtn/nn/scope.h"
#include "dtn/nn/tokens.h"

namespace dtn {

struct StageShape {
  std::int64_t channels;
  std::int64_t stride;  // pixels of the input from one token to the next
};

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
};

struct ModelRow {
  std::string family;
  std::string doc;
  // Adds its parameters to the scope. Throws ConfigError when the configuration makes no model.
  std::unique_ptr<Backbone> (*make)(const Scope&, const ModelConfig&);

  const std::string& name() const { return family; }
};

using ModelRegistry = Registry<ModelRow>;

// Ours.
const ModelRegistry& model_registry();

}  // namespace dtn
