// T2T-ViT (Yuan et al., ICCV 2021): tokens of overlapping windows (nn/tokens_to_token.h), then a
// vision transformer with fixed sinusoidal positions and a class token. Parameter names are the
// authors'.
//
// The class token joins before block model.class_token_at and always has the position in row 0; the
// patches have the rows from 1 on.
#pragma once

#include <vector>

#include "dtn/models/backbone.h"
#include "dtn/nn/block.h"
#include "dtn/nn/tokens_to_token.h"

namespace dtn {

class T2tVit : public Backbone {
 public:
  // Throws ConfigError if the configuration is invalid.
  T2tVit(const Scope&, const ModelConfig&);

  // Reads "image" [B, channels, height, width] of model.image_size.
  Features forward(Context&, const Fields&) override;
  Variable pooled(Context&, const Fields&) override;
  std::vector<FieldSpec> inputs() const override;
  std::vector<StageShape> stages() const override;
  std::vector<LayerInfo> layers() const override;

 private:
  // The tokens after the last block; or only the class token, if `class_token_alone` and the last
  // block can leave out the others.
  Tokens run_blocks(Context&, const Fields&, bool class_token_alone) const;
  Tokens embed(Context&, const Fields&) const;
  void join_class_token(Context&, Tokens&) const;

  ModelConfig config_;
  TokensToToken tokens_to_token_;
  Parameter* class_token_;
  Parameter* positions_;  // frozen
  std::vector<Block> blocks_;
  std::unique_ptr<Normalizer> norm_;
};

}  // namespace dtn
