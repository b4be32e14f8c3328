// One pre-norm transformer block: attention and MLP, each on a residual branch.
#pragma once

#include <memory>
#include <string>

#include "dtn/config/model_config.h"
#include "nn/residual_stream.h"

namespace dtn {

class TransformerBlock {
 public:
  // Adds its parameters under blocks.<index>.
  TransformerBlock(const ModelConfig& config, int index, ParameterStore& store);

  // Adds both branches to the stream, the last one perhaps pending.
  void forward(Context&, ResidualStream& stream, const TokenGrid& grid) const;

 private:
  void attention_branch(Context&, ResidualStream& stream, const TokenGrid& grid) const;
  void mlp_branch(Context&, ResidualStream& stream, const TokenGrid& grid) const;
  Tensor drop_path_scales(const Context&, const Variable& x, int consumer) const;
  // Random numbers of this block's consumers, distinct from every other's.
  std::uint32_t random_stream(int consumer) const;

  int index_;
  std::int64_t heads_;
  double drop_path_, dropout_;
  std::unique_ptr<Normalizer> norm1_, norm2_;
  Parameter *qkv_weight_, *qkv_bias_ = nullptr, *proj_weight_, *proj_bias_;
  Parameter* pos_weight_ = nullptr;  // where the attention has a positional bias
  Parameter *fc1_weight_, *fc1_bias_, *fc2_weight_, *fc2_bias_;
};

}  // namespace dtn
