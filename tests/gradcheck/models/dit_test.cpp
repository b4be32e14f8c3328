// Gradients of diffusion transformers, against central differences in float64.
#include "tiny_dit.h"

namespace dtn {
namespace {

constexpr std::int64_t kBatch = 3;

// The key part of an attention's bias shifts all scores of a query, which changes no softmax.
bool has_no_gradient(const ModelConfig& c, const Parameter& p, std::int64_t i) {
  const std::int64_t d = c.embed_dim;
  if (p.name.ends_with("attn.qkv.bias")) return i >= d && i < 2 * d;
  return p.name.ends_with("cross_attn.kv.bias") && i < d;
}

void check_dit(const ModelConfig& c, bool checkpoint_blocks) {
  SCOPED_TRACE(test::title_of_dit(c));
  test::Threads one(1);
  Classifier model(c, 1, DType::kFloat64);
  test::perturb(model.parameters());
  test::image_and_gradients(model, kBatch, DType::kFloat64, checkpoint_blocks);
  test::expect_gradients_of_image(
      model, test::dit_inputs(c, kBatch, DType::kFloat64),
      [&](const Parameter& p, std::int64_t i) { return has_no_gradient(c, p, i); });
}

TEST(DitGradients, EveryWayOfTheCondition) {
  for (const ModelConfig& c : test::tiny_dits()) check_dit(c, false);
}

TEST(DitGradients, CheckpointedBlocks) {
  for (const ModelConfig& c : test::tiny_dits()) check_dit(c, true);
}

}  // namespace
}  // namespace dtn
