// The vision transformer of the paper (and of DeiT): patches, positions, pre-norm blocks with a
// configurable normalizer, class token or mean pooling. Parameter names are timm's.
#pragma once

#include <memory>
#include <vector>

#include "dtn/models/backbone.h"
#include "dtn/nn/block.h"
#include "dtn/nn/patch_embed.h"

namespace dtn {

class VisionTransformer : public Backbone {
 public:
  // Throws ConfigError when the configuration makes no model.
  VisionTransformer(const Scope&, const ModelConfig& config);

  // Reads "image" [B, channels, image_size, image_size].
  Features forward(Context&, const Fields&) override;
  Variable pooled(Context&, const Fields&) override;
  std::vector<FieldSpec> inputs() const override;
  std::vector<StageShape> stages() const override;

  // Whether the last block has the class token before it, and can leave out all that is done there
  // for the other tokens alone; pooled() does.
  bool ends_in_class_token() const;

 private:
  Tokens embed(Context&, const Fields&) const;
  // The tokens behind the last block, ahead of the last norm, the class token among them; or that
  // alone, where the last block ends in it.
  Tokens run_blocks(Context&, const Fields&, bool class_token_alone) const;
  void join_class_token(Context&, Tokens& tokens) const;

  ModelConfig config_;
  Parameter* class_token_ = nullptr;  // with cls pooling
  Parameter* positions_;
  PatchEmbed patch_embed_;
  Dropout position_dropout_;
  std::vector<Block> blocks_;
  std::unique_ptr<Normalizer> norm_;
};

}  // namespace dtn
