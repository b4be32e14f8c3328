// Size and cost of a model, by formula.
#pragma once

#include "dtn/config/model_config.h"
#include "dtn/models/backbone.h"
#include "dtn/nn/normalizer.h"

namespace dtn {

struct Complexity {
  std::int64_t parameters = 0;
  // Multiply-adds of one forward pass of one image. The paper's count has a dense P, one T x T
  // product per DTN, and leaves out what normalizers do per element; the real count is what runs
  // where every block is whole.
  double paper_multiply_adds = 0;
  double multiply_adds = 0;
  // The same without what is not even done: the last block may compute for its class token alone
  // (Block::forward_class_token).
  double computed_multiply_adds = 0;
  // Bytes of activations kept for the backward pass, per image.
  double activation_bytes_fp32 = 0;
  double activation_bytes_bf16 = 0;
};

Complexity complexity_of(const ModelConfig& config, const ModelRegistry& models = model_registry(),
                         const NormRegistry& norms = norm_registry());

}  // namespace dtn
