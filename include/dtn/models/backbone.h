// The interface of every model family: features of an input, as tokens, for each stage.
#pragma once

#include <functional>
#include <memory>
#include <string>
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

// Size of a stage's features.
struct StageShape {
  std::int64_t channels;
  std::int64_t stride;  // input pixels between neighbouring tokens
};

// Outputs of a block after the last norm of the model, without gradients.
struct BlockOutput {
  Variable token;  // class token [B, C]; undefined: none has joined, or the model pools by the mean
  Variable patches;  // mean of the tokens of the grid, [B, C]
};

// Maps the pooled vector of each sample, x [B, C], to logits [B, K].
using ClassHead = std::function<Variable(Context&, const Variable& x)>;
// A linear layer with bias and parameters in the scope.
ClassHead make_linear_head(const Scope&, std::int64_t channels, int classes);

// A model without its heads.
class Backbone {
 public:
  virtual ~Backbone() = default;

  // The input fields of the model, such as "image" [channels, H, W] float32 (float64 with float64
  // weights), normalised and with the sizes in the model's config. The methods below also take
  // images of any other size that size_problem() allows.
  virtual std::vector<FieldSpec> inputs() const = 0;
  // Features of the input fields. Activations are computed in ctx.mode.compute.
  virtual Features forward(Context&, const Fields&) = 0;
  // One vector for each sample, [B, C of the last stage]: the input of a head for whole samples.
  // Values that it does not need are not computed, unless ctx.mode.skip_unread is off.
  virtual Variable pooled(Context&, const Fields&) = 0;
  // pooled() for each head of a model with several heads.
  virtual std::vector<Variable> pooled_each(Context& ctx, const Fields& fields) {
    return {pooled(ctx, fields)};
  }
  // Outputs of the last `count` blocks, the earliest first. For inference: sets no gradient path.
  // Throws ConfigError if the model has fewer blocks, or none that share their width and last norm.
  virtual std::vector<BlockOutput> last_blocks(Context&, const Fields&, int count);
  // Channels and stride of each stage, in the order of forward()'s features.
  virtual std::vector<StageShape> stages() const = 0;
  // Returns the reason why the model cannot process images of this size, as the end of a sentence;
  // empty: it can. The default refuses any size but that of inputs().
  virtual std::string size_problem(const ImageSize&) const;
  // A remark for the user on how the model runs; empty: none.
  virtual std::string note() const { return {}; }
  // The layers shown to an Observer in every pass, in that order; empty: nothing is shown.
  virtual std::vector<LayerInfo> layers() const { return {}; }
  // The heads of a classifier with this number of classes, one for each vector of pooled_each().
  virtual std::vector<ClassHead> make_heads(const Scope&, int classes) const;
};

// A model whose result is an image, such as the noise in the image that it reads.
class ImageModel : public Backbone {
 public:
  // The output [B, output_channels(), H, W] in ctx.mode.compute, for input fields with the names of
  // inputs(). H and W are those of the input image.
  virtual Variable image(Context&, const Fields&) = 0;
  // Channels of image().
  virtual std::int64_t output_channels() const = 0;
};

// Conversion of weights of other libraries to the names of a family.
struct WeightNameMaps {
  // Renames tensors to the parameter names used here, with notes for the user on tensors that are
  // left out or combined. Null: the names are the same.
  NamedTensors (*renamed)(const NamedTensors&, std::vector<std::string>& notes) = nullptr;
  // True for a tensor of a file that is not a weight, such as a table that is computed here.
  bool (*skips)(const std::string& name) = nullptr;
};

// A family in the registry.
struct ModelEntry {
  ModelSchema schema;
  // Adds its parameters to the scope. Throws ConfigError if the configuration is invalid.
  std::unique_ptr<Backbone> (*make)(const Scope&, const ModelConfig&);
  WeightNameMaps weights{};

  const std::string& name() const { return schema.family; }
};

// The available model families.
using ModelRegistry = Registry<ModelEntry>;

// The model families of the library.
const ModelRegistry& model_registry();

}  // namespace dtn
