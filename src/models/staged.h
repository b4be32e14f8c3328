// Transformers with several stages, each on a coarser grid than the stage before: common base of
// the families PVT, PVTv2 and Swin.
#pragma once

#include <memory>
#include <vector>

#include "dtn/nn/block.h"
#include "models/image_models.h"

namespace dtn {

class StagedTransformer : public ImageBackbone {
 public:
  // Returns one entry for each stage, after its norms if it has some.
  Features forward(Context&, const Fields&) override;
  // The class token of the last stage, or the mean of its tokens.
  Variable pooled(Context&, const Fields&) override;
  std::vector<StageShape> stages() const override;
  std::vector<LayerInfo> layers() const override;

 protected:
  // The blocks of a stage and the normalizer after them.
  struct Stage {
    std::vector<Block> blocks;
    std::unique_ptr<Normalizer> norm;  // after the blocks; null: none, except in the last stage
    // Normalizes the feature alone; the next stage reads the tokens before it. Null: none.
    std::unique_ptr<Normalizer> feature_norm{};
  };

  using ImageBackbone::ImageBackbone;

  // Returns the reason why a stage cannot process tokens of its grid, as the end of a sentence;
  // empty: all stages can.
  std::string stage_grid_problem(const std::vector<TokenGrid>& grids) const;

  // Computes the input tokens of a stage's blocks from the tokens of the stage before; for the
  // first stage, from the tokens of the image.
  virtual Tokens enter(Context&, int stage, const Tokens&) const = 0;

  std::vector<Stage> stages_;

 private:
  // The tokens after the stage's blocks; with `pooled_alone` only the class token.
  Tokens run_blocks(Context&, int stage, Tokens tokens, bool pooled_alone) const;
  void close(Context&, int stage, Tokens& tokens) const;
};

}  // namespace dtn
