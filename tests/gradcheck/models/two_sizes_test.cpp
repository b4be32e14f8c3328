// Gradients of models that process images of two sizes in one step.
#include "two_sizes.h"

#include "model_gradients.h"

namespace dtn {
namespace {

TEST(TwoSizeGradients, VisionTransformers) {
  for (const test::SizedModel& m : test::sized_vits()) {
    SCOPED_TRACE(m.config.preset);
    test::check_gradients(m.config, {}, false, m.other);
  }
}

TEST(TwoSizeGradients, OtherFamilies) {
  for (const test::SizedModel& m : test::sized_families()) {
    SCOPED_TRACE(test::title_of(m.config));
    test::check_gradients(m.config, {}, false, m.other);
  }
}

TEST(TwoSizeGradients, CheckpointedBlocks) {
  ModelConfig c = test::paper_vit();
  c.drop_path = 0.3;
  test::check_gradients(c, test::training_context(), true, ImageSize(10, 20));
}

}  // namespace
}  // namespace dtn
