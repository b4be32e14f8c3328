// One pre-norm transformer block: attention and MLP, each on a residual branch.
#pragma once

#include <memory>
#include <string>

#include "dtn/config/model_config.h"
#include "dtn/nn/normalizer.h"

namespace dtn {

class TransformerBlock {
 public:
  // Adds its parameters under blocks.<index>.
  TransformerBlock(const ModelConfig& config, int index, ParameterStore& store);

  // x [B, T, C] -> [B, T, C]
  Variable forward(Context&, const Variable& x, const TokenGrid& grid) const;

 private:
  Variable attention_branch(Context&, const Variable& x, const TokenGrid& grid) const;
  Variable mlp_branch(Context&, const Variable& x, const TokenGrid& grid) const;
  // Random streams of this block, distinct from every other consumer's.
  std::uint32_t stream(int consumer) const;

  int index_;
  std::int64_t heads_;
  double drop_path_, dropout_;
  std::unique_ptr<Normalizer> norm1_, norm2_;
  Parameter *qkv_weight_, *qkv_bias_ = nullptr, *proj_weight_, *proj_bias_;
  Parameter *fc1_weight_, *fc1_bias_, *fc2_weight_, *fc2_bias_;
};

}  // namespace dtn
