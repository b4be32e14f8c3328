// Transformers that classify sequences of tokens, as in the Long-Range Arena (Tay et al., ICLR
// 2021): embedding, class token and fixed sinusoids, pre-norm blocks with a configurable
// normalizer, a last LayerNorm, and a head with one hidden layer on the class token.
//
// The class token has position 0; pads are at the end of a sequence.
// Parameters: embed.weight [V, C], cls_token [1, 1, C], blocks.N.{norm1, attn, norm2, mlp}.*,
// norm.*, head.{fc1, fc2}.{weight, bias}.
#pragma once

#include <memory>
#include <vector>

#include "dtn/models/backbone.h"
#include "dtn/nn/block.h"

namespace dtn {

class SequenceTransformer : public Backbone {
 public:
  // Throws ConfigError if the configuration is invalid.
  SequenceTransformer(const Scope&, const ModelConfig& config);

  // Reads "tokens" [B, max_length] int64, ids below the vocabulary, and the number of valid tokens,
  // "tokens.lengths" [B] int64. Tokens after them are not read.
  std::vector<FieldSpec> inputs() const override;
  // One entry: the sequence with the class token first.
  Features forward(Context&, const Fields&) override;
  Variable pooled(Context&, const Fields&) override;
  std::vector<StageShape> stages() const override { return {{config_.embed_dim, 1}}; }
  // Says if there are too few blocks of tokens for BigBird's pattern.
  std::string note() const override;
  std::vector<LayerInfo> layers() const override;
  std::vector<std::unique_ptr<ClassHead>> make_heads(const Scope&, int classes) const override;

 private:
  Tokens embed(Context&, const Fields&) const;
  Tokens run_blocks(Context&, const Fields&) const;
  void join_class_token(Context&, Tokens& tokens) const;
  // The table of positions [1, max_length + 1, C] in this type, on this device.
  const Tensor& positions(DType, Device) const;

  ModelConfig config_;
  Parameter* embedding_;
  Parameter* class_token_;
  Dropout dropout_;
  std::vector<Block> blocks_;
  std::unique_ptr<Normalizer> norm_;
  mutable Tensor positions_;  // cached by positions()
};

}  // namespace dtn
