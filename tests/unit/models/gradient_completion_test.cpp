// Every parameter reports its complete gradient once, in every variant of the model.
#include "dtn/nn/normalizer.h"
#include "grad_ready_recorder.h"
#include "tiny_vit.h"

namespace dtn {
namespace {

using namespace dtn::test;

void check(const ModelConfig& config) {
  Classifier model(config, 1);
  perturb(model.parameters());
  GradReadyRecorder gradients(model.parameters());
  for (bool training : {false, true}) {
    for (bool checkpoint_blocks : {false, true}) {
      SCOPED_TRACE(cat(config.preset, ", ", config.norm.type, training ? ", training" : "",
                       checkpoint_blocks ? ", checkpointed" : ""));
      Context ctx;
      ctx.mode.training = training;
      logits_and_gradients(model, 4, DType::kFloat32, ctx, checkpoint_blocks);
      gradients.expect_reported_once();
    }
  }
}

TEST(GradientCompletion, ReportsOncePerParameterForEveryModel) {
  std::vector<ModelConfig> flavours = checkpoint_vits();
  for (const ModelConfig& c :
       {paper_vit(), deit_vit(), mean_vit(), biased_vit(), prefix_vit(), adaptive_vit()}) {
    flavours.push_back(c);
  }
  for (ModelConfig c : flavours) {
    check(c);
    c.drop_path = 0.4;
    c.dropout = 0.2;
    check(c);
  }
}

TEST(GradientCompletion, ReportsOncePerParameterForEveryNormalizer) {
  for (const NormSchema& schema : norm_registry().schemas()) {
    if (!schema.stands_alone()) continue;
    ModelConfig c = mean_vit();
    c.norm.type = schema.type;
    check(c);
  }
}

// Without a tape, as in evaluation, no uses are counted.
TEST(GradientCompletion, ForwardPassWithoutTapeReportsNothing) {
  Classifier model(paper_vit(), 1);
  GradReadyRecorder gradients(model.parameters());
  Context ctx;
  model.forward(ctx, some_images(model.config(), 2, DType::kFloat32));
  gradients.expect_reported_once();
}

}  // namespace
}  // namespace dtn
