// The vision transformer of the paper (and of DeiT): patches, positions, pre-norm blocks with a
// configurable normalizer, class token or mean pooling, and the options of public checkpoints.
// Parameter names are timm's.
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
  // Throws ConfigError when the configuration makes no model.
  VisionTransformer(const Scope&, const ModelConfig& config);

  // Reads "image" [B, channels, height, width] of model.image_size.
  Features forward(Context&, const Fields&) override;
  // Of a distilled model the mean of both tokens.
  Variable pooled(Context&, const Fields&) override;
  // The class token and, of a distilled model, the distillation token.
  std::vector<Variable> pooled_each(Context&, const Fields&) override;
  std::vector<FieldSpec> inputs() const override;
  std::vector<StageShape> stages() const override;
  std::vector<LayerInfo> layers() const override;
  std::vector<std::unique_ptr<ClassHead>> make_heads(const Scope&, int classes) const override;

  // Shows the attention weights of a block, [B, H, T, T], whenever it runs for all tokens: the last
  // one does with ctx.mode.skip_unread off. The tokens are the prefix, where it has joined, and the
  // patches in raster order.
  void observe_attention(int block, Block::AttentionObserver observer) {
    blocks_.at(static_cast<std::size_t>(block)).observe_attention(std::move(observer));
  }

  // Whether the last block has the pooled tokens before it, and can leave out all that is done
  // there for the other tokens alone; pooled() does.
  bool ends_in_class_token() const;

 private:
  Tokens embed(Context&, const Fields&) const;
  // The tokens behind the last block, ahead of the last norm, the prefix among them; or those
  // that are pooled alone, where the last block ends in them.
  Tokens run_blocks(Context&, const Fields&, bool pooled_alone) const;
  // The first tokens, which cls pooling reads.
  std::int64_t pooled_tokens() const { return 1 + config_.distilled; }
  void join_prefix(Context&, Tokens& tokens) const;
  bool joins_first() const { return config_.prefix_tokens() > 0 && config_.grid_blocks() == 0; }

  ModelConfig config_;
  Parameter* class_token_;  // null where there is none
  Parameter* distillation_token_;
  Parameter* registers_;
  Parameter* positions_;
  PatchEmbed patch_embed_;
  Dropout position_dropout_;
  std::unique_ptr<Normalizer> norm_pre_;  // null where there is none
  std::vector<Block> blocks_;
  std::unique_ptr<Normalizer> norm_;  // of all tokens, or with fc_norm of the pooled vector
};

}  // namespace dtn
