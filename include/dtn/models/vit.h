// The vision transformer of the paper (and of DeiT): patches, positions, pre-norm blocks with a
// configurable normalizer, class token or mean pooling, linear head. Parameter names are timm's.
#pragma once

#include <memory>
#include <vector>

#include "dtn/autograd/context.h"
#include "dtn/config/model_config.h"
#include "dtn/nn/normalizer.h"
#include "dtn/nn/parameters.h"

namespace dtn {

class TransformerBlock;
struct Complexity;

class VisionTransformer {
 public:
  // Builds and initialises the model on a device; the same seed gives the same weights on each.
  // `dtype` is that of the master weights: float32, or float64 for tests. Throws ConfigError when
  // the configuration makes no model.
  VisionTransformer(const ModelConfig& config, std::uint64_t seed, DType dtype = DType::kFloat32,
                    Device device = kCpu);
  ~VisionTransformer();

  // images [B, channels, image_size, image_size] float32 (float64 with float64 weights), already
  // normalised. Activations are computed in `dtype`; logits [B, num_classes] come back in it.
  // With checkpoint_blocks, each block is run again in the backward pass instead of being saved.
  Variable forward(Context&, const Tensor& images, DType dtype, bool checkpoint_blocks = false);

  const ModelConfig& config() const { return config_; }
  ParameterStore& parameters() { return store_; }
  const ParameterStore& parameters() const { return store_; }

 private:
  friend Complexity complexity_of(const ModelConfig& config);
  struct Unallocated {};
  // The modules and the names and shapes of the parameters, without memory behind them.
  VisionTransformer(const ModelConfig& config, Unallocated);

  ModelConfig config_;
  ParameterStore store_;
  Parameter* patch_weight_;
  Parameter* patch_bias_;
  Parameter* class_token_ = nullptr;  // with cls pooling
  Parameter* positions_;
  std::vector<std::unique_ptr<TransformerBlock>> blocks_;
  std::vector<std::size_t> parameters_before_;  // each block
  std::unique_ptr<Normalizer> norm_;
  Parameter* head_weight_;
  Parameter* head_bias_;
};

}  // namespace dtn
