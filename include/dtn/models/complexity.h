// Size and cost of a model, measured by running it on the meta device, which counts operations
// instead of executing them. Works for every family and for user-defined normalizers.
#pragma once

#include "dtn/config/model_config.h"
#include "dtn/models/backbone.h"
#include "dtn/nn/normalizer.h"

namespace dtn {

struct Complexity {
  std::int64_t parameters = 0;
  // Multiply-adds of one forward pass of one sample, in matrix products, attention, convolutions
  // and the products of DTN. The few operations per element in other norms, activations and the
  // softmax are not counted. The paper's count assumes a dense P, one T x T product per DTN. The
  // real count assumes that every block processes all tokens.
  double paper_multiply_adds = 0;
  double multiply_adds = 0;
  // The real count without values that are never read and so not computed (Mode::skip_unread).
  double computed_multiply_adds = 0;
  // Bytes kept for the backward pass, per sample: values saved by the operations of a forward pass,
  // without its inputs.
  double activation_bytes_fp32 = 0;
  double activation_bytes_bf16 = 0;
};

// Measures one forward pass of one sample. Throws ConfigError if the configuration is invalid.
Complexity complexity_of(const ModelConfig& config, const ModelRegistry& models = model_registry(),
                         const NormRegistry& norms = norm_registry());

// Runs a forward pass of `samples` in training mode on the meta device and throws its errors.
void try_training_pass(const ModelConfig& config, std::int64_t samples,
                       const ModelRegistry& models = model_registry(),
                       const NormRegistry& norms = norm_registry());

}  // namespace dtn
