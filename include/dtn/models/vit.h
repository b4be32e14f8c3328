// The vision transformer of the paper (and of DeiT): patches, positions, pre-norm blocks with a
// configurable normalizer, class token or mean pooling, and the options of public checkpoints.
// Parameter names are those of timm.
//
// In order: patches, the prefix (class token, distillation token, registers) and positions,
// norm_pre, blocks, norm, pooling, fc_norm.
#pragma once

#include <memory>
#include <vector>

#include "dtn/models/backbone.h"
#include "dtn/nn/block.h"
#include "dtn/nn/patch_embed.h"

namespace dtn {

class VisionTransformer : public Backbone {
 public:
  // Throws ConfigError if the configuration is invalid.
  VisionTransformer(const Scope&, const ModelConfig& config);

  // Reads "image" [B, channels, height, width] of model.image_size.
  Features forward(Context&, const Fields&) override;
  // For a distilled model the mean of both tokens.
  Variable pooled(Context&, const Fields&) override;
  // The class token and, for a distilled model, the distillation token.
  std::vector<Variable> pooled_each(Context&, const Fields&) override;
  std::vector<FieldSpec> inputs() const override;
  std::vector<StageShape> stages() const override;
  std::vector<LayerInfo> layers() const override;
  std::vector<std::unique_ptr<ClassHead>> make_heads(const Scope&, int classes) const override;

  // True if the pooled tokens join before the last block and that block can process them alone,
  // leaving out all other tokens; pooled() does so.
  bool ends_in_class_token() const;

 private:
  Tokens embed(Context&, const Fields&) const;
  // The tokens after the last block and before the last norm, with the prefix; or only the pooled
  // tokens, if `pooled_alone` and ends_in_class_token().
  Tokens run_blocks(Context&, const Fields&, bool pooled_alone) const;
  // The number of leading tokens that cls pooling reads.
  std::int64_t pooled_tokens() const { return 1 + config_.distilled; }
  void join_prefix(Context&, Tokens& tokens) const;
  bool joins_first() const { return config_.prefix_tokens() > 0 && config_.grid_blocks() == 0; }

  ModelConfig config_;
  Parameter* class_token_;  // null: none
  Parameter* distillation_token_;
  Parameter* registers_;
  Parameter* positions_;
  PatchEmbed patch_embed_;
  Dropout position_dropout_;
  std::unique_ptr<Normalizer> norm_pre_;  // null: none
  std::vector<Block> blocks_;
  std::unique_ptr<Normalizer> norm_;  // of all tokens; with fc_norm, of the pooled vector
};

}  // namespace dtn
