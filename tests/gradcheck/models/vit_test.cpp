// Gradients of vision transformers.
#include "model_gradients.h"

namespace dtn {
namespace {

using test::check_gradients;
using test::training_context;

TEST(ModelGradients, PaperViT) { check_gradients(test::paper_vit(), {}); }
TEST(ModelGradients, DeitViT) { check_gradients(test::deit_vit(), {}); }
TEST(ModelGradients, DtnWithPrefixTokens) {
  check_gradients(test::prefix_vit(), {});
  check_gradients(test::prefix_vit(), training_context(), true);
}
TEST(ModelGradients, RectangularImages) { check_gradients(test::wide_vit(), {}); }
TEST(ModelGradients, MeanPooling) { check_gradients(test::mean_vit(), {}); }

TEST(ModelGradients, AttentionPositions) {
  check_gradients(test::biased_vit(), {});
  ModelConfig c = test::mean_vit();
  c.mhsa_position = true;
  check_gradients(c, training_context(), true);
}

TEST(ModelGradients, OptionsOfPublicCheckpoints) {
  for (ModelConfig c : test::checkpoint_vits()) {
    check_gradients(c, {});
    c.drop_path = 0.4;
    check_gradients(c, training_context(), true);
  }
}

TEST(ModelGradients, CheckpointOptionsWithDtn) {
  ModelConfig c = test::paper_vit();
  c.layer_scale = 0.5;
  c.registers = 2;
  c.qk_norm = true;
  c.act = MlpActivation::kSilu;
  check_gradients(c, {});
}

TEST(ModelGradients, OfficialVariant) {
  ModelConfig c = test::paper_vit();
  c.norm.options = {{"variant", std::string("official")}};
  check_gradients(c, {});
}

TEST(ModelGradients, ConditionsFromTheData) {
  ModelConfig c = test::adaptive_vit();
  check_gradients(c, {});
  c.drop_path = 0.4;
  check_gradients(c, training_context(), true);
  c.condition.from = ConditionFrom::kVector;
  c.condition.styles.reset();
  check_gradients(c, {});
}

TEST(ModelGradients, DropPathAndDropout) {
  ModelConfig c = test::paper_vit();
  c.drop_path = 0.4;
  check_gradients(c, training_context());
  c.dropout = 0.2;
  check_gradients(c, training_context());
}

TEST(ModelGradients, CheckpointedBlocks) {
  check_gradients(test::mean_vit(), training_context(), true);
}

}  // namespace
}  // namespace dtn
