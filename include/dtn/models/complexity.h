// Size and cost of a model, found by running it on the meta device, where operations are counted
// instead of carried out. So it holds for every family, for normalizers of one's own, too.
#pragma once

#include "dtn/config/model_config.h"
#include "dtn/models/backbone.h"
#include "dtn/nn/normalizer.h"

namespace dtn {

struct Complexity {
  std::int64_t parameters = 0;
  // Multiply-adds of one forward pass of one sample, in matrix products, attention, convolutions and
  // the products of DTN; the few operations per element of other norms, activations and the softmax
  // do not count. The paper's count has a dense P, one T x T product per DTN; the real count is what
  // runs where every block is whole.
  double paper_multiply_adds = 0;
  double multiply_adds = 0;
  // The same without what is not even done, since nobody reads it (Mode::skip_unread).
  double computed_multiply_adds = 0;
  // Bytes kept for the backward pass, per sample: what the operations of a forward pass save, its
  // inputs not counted.
  double activation_bytes_fp32 = 0;
  double activation_bytes_bf16 = 0;
};

Complexity complexity_of(const ModelConfig& config, const ModelRegistry& models = model_registry(),
                         const NormRegistry& norms = norm_registry());

// Runs a forward pass of `samples` in training mode on the meta device, for the errors it throws.
void try_training_pass(const ModelConfig& config, std::int64_t samples,
                       const ModelRegistry& models = model_registry(),
                       const NormRegistry& norms = norm_registry());

}  // namespace dtn
