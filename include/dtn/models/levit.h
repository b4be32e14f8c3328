// LeViT (Graham et al., ICCV 2021): a stem of convolutions, stages of attention and MLP with
// BatchNorm behind every linear layer in place of normalizers ahead of them, attention that shrinks
// the grid in between, the mean, and one or two heads. Parameter names are the authors'.
//
// Only the normalizers behind the attentions' projections are norm.type; all others are BatchNorm,
// in evaluations folded into the layers ahead (nn/norm_layers.h).
#pragma once

#include <memory>
#include <vector>

#include "dtn/models/backbone.h"
#include "dtn/nn/norm_layers.h"

namespace dtn {

// One entry of the flat list `blocks`, of which checkpointing may run each again.
class LevitBlock {
 public:
  virtual ~LevitBlock() = default;
  virtual Variable forward(Context&, const Variable& x) const = 0;
  // x [B, T, C] -> [B, T', C'], where this is the grid of T'.
  virtual TokenGrid grid() const = 0;
  // Adds what it is to the layers: an attention begins one, and the MLP behind it ends it.
  virtual void describe(std::vector<LayerInfo>& layers) const = 0;
};

class Levit : public Backbone {
 public:
  // Throws ConfigError when the configuration makes no model.
  Levit(const Scope&, const ModelConfig&);

  // Reads "image" [B, channels, height, width] of model.image_size.
  Features forward(Context&, const Fields&) override;
  Variable pooled(Context&, const Fields&) override;
  // The same vector for each head.
  std::vector<Variable> pooled_each(Context&, const Fields&) override;
  std::vector<FieldSpec> inputs() const override;
  std::vector<StageShape> stages() const override;
  std::vector<LayerInfo> layers() const override;
  // `head` and, with model.distilled, `head_dist`: a BatchNorm and a linear layer each.
  std::vector<std::unique_ptr<ClassHead>> make_heads(const Scope&, int classes) const override;

 private:
  void add_stage(const Scope& blocks, int stage, const TokenGrid& grid);
  void add_shrink(const Scope& blocks, int stage, const TokenGrid& grid);

  ModelConfig config_;
  std::vector<ConvNorm> stem_;
  std::vector<std::unique_ptr<LevitBlock>> blocks_;
  std::vector<std::size_t> stage_ends_;  // how many blocks there are up to the end of each
};

// The family's row of the registry.
ModelRow levit_row();

}  // namespace dtn
