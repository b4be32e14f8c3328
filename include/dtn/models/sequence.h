// Transformers that classify sequences of tokens, as the Long-Range Arena has them (Tay et al., ICLR
// 2021): embedding, class token and fixed sinusoids, pre-norm blocks with a configurable normalizer,
// a last LayerNorm, and a head with one hidden layer on the class token.
//
// A sequence is a line of tokens of which the class token is position 0; pads stand at its end.
// Parameters: embed.weight [V, C], cls_token [1, 1, C], blocks.N.{norm1, attn, norm2, mlp}.*, norm.*,
// head.{fc1, fc2}.{weight, bias}.
#pragma once

#include <memory>
#include <vector>

#include "dtn/models/backbone.h"
#include "dtn/nn/block.h"

namespace dtn {

class SequenceTransformer : public Backbone {
 public:
  // Throws ConfigError when the configuration makes no model.
  SequenceTransformer(const Scope&, const ModelConfig& config);

  // Reads "tokens" [B, max_length] int64, ids below the vocabulary, and how many of them count,
  // "tokens.lengths" [B] int64. What lies behind is not looked at.
  std::vector<FieldSpec> inputs() const override;
  // One line of tokens, the class token first.
  Features forward(Context&, const Fields&) override;
  Variable pooled(Context&, const Fields&) override;
  std::vector<StageShape> stages() const override { return {{config_.embed_dim, 1}}; }
  // Whether there are too few blocks of tokens for BigBird's.
  std::string note() const override;
  std::vector<LayerInfo> layers() const override;
  std::vector<std::unique_ptr<ClassHead>> make_heads(const Scope&, int classes) const override;

 private:
  Tokens embed(Context&, const Fields&) const;
  Tokens run_blocks(Context&, const Fields&) const;
  void join_class_token(Context&, Tokens& tokens) const;
  // The table of positions [1, max_length + 1, C] of that type, there.
  const Tensor& positions(DType, Device) const;

  ModelConfig config_;
  Parameter* embedding_;
  Parameter* class_token_;
  Dropout dropout_;
  std::vector<Block> blocks_;
  std::unique_ptr<Normalizer> norm_;
  mutable Tensor positions_;  // made when they are wanted first
};

ModelRow sequence_row();

}  // namespace dtn
