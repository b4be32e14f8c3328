// LeViT (Graham et al., ICCV 2021): a convolutional stem, stages of attention and MLP, attention
// that shrinks the grid between stages, mean pooling, and one or two heads. In the blocks,
// BatchNorm follows every linear layer instead of a normalizer before it. Parameter names are the
// authors'.
//
// Only the normalizers after the attention projections are norm.type. All others are BatchNorm,
// which an evaluation folds into the neighbouring layers (nn/norm_layers.h).
#pragma once

#include <memory>
#include <vector>

#include "dtn/models/backbone.h"
#include "dtn/nn/norm_layers.h"

namespace dtn {

// One entry of the flat list `blocks`. Checkpointing may run each entry again.
class LevitBlock {
 public:
  virtual ~LevitBlock() = default;
  // x [B, T, C] -> [B, T', C'], see grid().
  virtual Variable forward(Context&, const Variable& x) const = 0;
  // The grid of the output tokens: x [B, T, C] -> [B, T', C'], T' = grid().tokens().
  virtual TokenGrid grid() const = 0;
  // Adds its description to the layers. An attention begins a layer, and the MLP after it ends it.
  virtual void describe(std::vector<LayerInfo>& layers) const = 0;
};

class Levit : public Backbone {
 public:
  // Throws ConfigError if the configuration is invalid.
  Levit(const Scope&, const ModelConfig&);

  // Reads "image" [B, channels, height, width] of model.image_size.
  Features forward(Context&, const Fields&) override;
  Variable pooled(Context&, const Fields&) override;
  // The same vector for each head.
  std::vector<Variable> pooled_each(Context&, const Fields&) override;
  std::vector<FieldSpec> inputs() const override;
  std::vector<StageShape> stages() const override;
  std::vector<LayerInfo> layers() const override;
  // `head` and, with model.distilled, `head_dist`: each is a BatchNorm and a linear layer.
  std::vector<std::unique_ptr<ClassHead>> make_heads(const Scope&, int classes) const override;

 private:
  void add_stage(const Scope& blocks, int stage, const TokenGrid& grid);
  void add_shrink(const Scope& blocks, int stage, const TokenGrid& grid);

  ModelConfig config_;
  std::vector<ConvNorm> stem_;
  std::vector<std::unique_ptr<LevitBlock>> blocks_;
  std::vector<std::size_t> stage_ends_;  // number of blocks up to the end of each stage
};

}  // namespace dtn
