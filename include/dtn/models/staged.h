// Transformers of several stages, each on a coarser grid than the one before: what the families
// PVT, PVTv2 and Swin share.
#pragma once

#include <memory>
#include <vector>

#include "dtn/models/backbone.h"
#include "dtn/nn/block.h"

namespace dtn {

class StagedTransformer : public Backbone {
 public:
  // Reads "image" [B, channels, height, width] of model.image_size. One entry for each stage,
  // behind its norm where it has one.
  Features forward(Context&, const Fields&) override;
  // The class token of the last stage, or the mean of its tokens.
  Variable pooled(Context&, const Fields&) override;
  std::vector<FieldSpec> inputs() const override;
  std::vector<StageShape> stages() const override;
  std::vector<LayerInfo> layers() const override;

 protected:
  struct Stage {
    std::vector<Block> blocks;
    std::unique_ptr<Normalizer> norm;  // behind the blocks; null: none, unless it is the last stage
  };

  explicit StagedTransformer(const ModelConfig& config) : config_(config) {}

  // From the tokens of the stage before, those of the image at first, to those of the stage's
  // blocks.
  virtual Tokens enter(Context&, int stage, const Tokens&) const = 0;

  ModelConfig config_;
  std::vector<Stage> stages_;

 private:
  Tokens image(Context&, const Fields&) const;
  // Behind the blocks of the stage; the class token alone with `pooled_alone`.
  Tokens run_blocks(Context&, int stage, Tokens tokens, bool pooled_alone) const;
  void close(Context&, int stage, Tokens& tokens) const;
};

}  // namespace dtn
