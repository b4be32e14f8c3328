#include "dtn/models/complexity.h"

#include "dtn/models/classifier.h"
#include "dtn/models/vit.h"
#include "dtn/nn/normalizer.h"

namespace dtn {

Complexity complexity_of(const ModelConfig& config, const ModelRegistry& models,
                         const NormRegistry& norms) {
  Complexity result;
  Classifier model(config, Classifier::Unallocated{}, models, norms);
  result.parameters = model.parameters().count();

  double c = config.embed_dim, hidden = config.mlp_dim(), patches = config.num_patches();
  double image_pixels =
      static_cast<double>(config.channels) * config.image_size * config.image_size;
  double products = image_pixels * c + c * config.num_classes;
  double saved = image_pixels;  // elements kept, in the type of the activations
  double saved_fp32 = 0;        // statistics
  ParameterStore scratch;
  TokenGrid grid{config.grid(), config.grid()};
  NormShape shape{config.embed_dim, config.num_heads, config.eps, grid};
  auto norm = make_normalizer(config.norm, shape, {scratch, "norm", &norms});
  for (int i = 0; i < config.depth; ++i) {
    bool joined = i >= config.grid_blocks();
    double tokens = patches + joined;
    // The few operations per score of the softmax, and of a positional bias, do not count.
    products += tokens * (4 * c * c + 2 * c * hidden) + 2 * tokens * tokens * c;
    if (i < config.norm_layers()) {
      result.paper_multiply_adds += 2 * norm->paper_multiply_adds(grid);
      result.multiply_adds += 2 * norm->multiply_adds(grid);
    }
    // Two residual streams, two norm outputs, qkv, the attention's output, the hidden layer.
    saved += tokens * (8 * c + hidden);
    saved_fp32 += tokens * (4 + config.num_heads);
  }
  result.paper_multiply_adds += products;
  result.multiply_adds += products;
  result.computed_multiply_adds = result.multiply_adds;
  const auto* vit = dynamic_cast<const VisionTransformer*>(&model.backbone());
  if (vit && vit->ends_in_class_token()) {  // queries, projection and MLP of the other tokens
    result.computed_multiply_adds -=
        patches * (2 * c * c + 2 * c * hidden) + 2 * patches * (patches + 1) * c;
  }
  result.activation_bytes_fp32 = 4 * (saved + saved_fp32);
  result.activation_bytes_bf16 = 2 * saved + 4 * saved_fp32;
  return result;
}

}  // namespace dtn
