// Gradients of models of the other families.
#include <gtest/gtest.h>

#include "model_gradients.h"
#include "tiny_models.h"

namespace dtn {
namespace {

// As in an evaluation: BatchNorm is folded into the layer before it.
TEST(FamilyGradients, EvaluationStatistics) {
  for (const ModelConfig& c : test::tiny_models()) {
    SCOPED_TRACE(test::title_of(c));
    test::check_gradients(c, {});
  }
}

TEST(FamilyGradients, BatchStatistics) {
  for (const ModelConfig& c : test::tiny_models()) {
    SCOPED_TRACE(test::title_of(c));
    test::check_gradients(c, test::training_context());
  }
}

// Also with drop path, and with recomputed blocks.
TEST(FamilyGradients, CheckpointedBlocks) {
  for (ModelConfig c : test::tiny_models()) {
    SCOPED_TRACE(test::title_of(c));
    if (test::drops_paths(c)) c.drop_path = 0.2;
    test::check_gradients(c, test::training_context(), true);
  }
}

}  // namespace
}  // namespace dtn
