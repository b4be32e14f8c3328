// Computes one model of each family in several ways, which must agree.
#include <algorithm>

#include "tiny_models.h"

namespace dtn {
namespace {

Context training() {
  Context ctx;
  ctx.mode.training = true;
  ctx.rng.seed = 8;
  ctx.rng.step = 2;
  return ctx;
}

TEST(FamilyParity, CoversEveryFamily) {
  for (const ModelEntry& row : model_registry()) {
    // unit/models/sequence_test.cpp and unit/models/dit_test.cpp make the same checks for models of
    // sequences and for models of one task, whose result is an image.
    const bool found = row.name() == "vit" || row.schema.sequences || !row.schema.task.empty() ||
                       std::ranges::any_of(test::tiny_models(), [&](const ModelConfig& c) {
                         return c.family == row.name();
                       });
    EXPECT_TRUE(found) << row.name();
  }
}

TEST(FamilyParity, CheckpointedBlocksGiveSameBits) {
  for (ModelConfig c : test::tiny_models()) {
    SCOPED_TRACE(test::title_of(c));
    if (test::drops_paths(c)) c.drop_path = 0.4;
    for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      Classifier model(c, 1);
      test::perturb(model.parameters());
      if (dtype == DType::kBFloat16) model.parameters().enable_bfloat16();
      const auto buffers = [&] {
        const Tensor& next = model.parameters().next_buffers();
        return next.defined() ? test::doubles(next) : test::Doubles();
      };
      const Tensor saved = test::logits_and_gradients(model, 4, dtype, training(), false);
      const Tensor gradients = model.parameters().gradients().clone();
      const test::Doubles moved = buffers();
      model.parameters().restart_buffers();
      EXPECT_TRUE(moved.empty() || moved != buffers()) << "running statistics have not moved";
      const Tensor again = test::logits_and_gradients(model, 4, dtype, training(), true);
      EXPECT_TRUE(test::same_bits(saved, again));
      EXPECT_TRUE(test::same_bits(gradients, model.parameters().gradients()));
      EXPECT_EQ(moved, buffers()) << "running statistics moved otherwise";
      EXPECT_GT(test::max_abs(test::doubles(gradients)), 0);
    }
  }
}

TEST(FamilyParity, Float32IsCloseToFloat64) {
  for (const ModelConfig& c : test::tiny_models()) {
    SCOPED_TRACE(test::title_of(c));
    Classifier model(c, 1), exact(c, 1, DType::kFloat64);
    test::perturb(model.parameters());
    for (Parameter& p : exact.parameters().parameters()) {
      Tensor value = p.variable.value();
      value.copy_from(test::as(model.parameters().find(p.name)->variable.value(), DType::kFloat64));
    }
    for (bool is_training : {false, true}) {
      Context ctx = training();
      ctx.mode.training = is_training;
      const auto got = test::doubles(test::logits_and_gradients(model, 4, DType::kFloat32, ctx));
      const auto want = test::doubles(test::logits_and_gradients(exact, 4, DType::kFloat64, ctx));
      const double tolerance = 4 * 60 * test::unit_roundoff(DType::kFloat32);
      EXPECT_LE(test::max_abs_difference(got, want), tolerance * test::max_abs(want));
      const auto dgot = test::doubles(model.parameters().gradients());
      const auto dwant = test::doubles(exact.parameters().gradients());
      EXPECT_LE(test::max_abs_difference(dgot, dwant), 2 * tolerance * test::max_abs(dwant));
    }
  }
}

// About sixty rounded results precede a logit. Their errors add up like a random walk. The bound is
// four standard deviations.
TEST(FamilyParity, Bfloat16IsCloseToFloat32) {
  for (const ModelConfig& c : test::tiny_models()) {
    SCOPED_TRACE(test::title_of(c));
    Classifier model(c, 1);
    test::perturb(model.parameters());
    model.parameters().enable_bfloat16();
    const auto full = test::doubles(test::logits_and_gradients(model, 4, DType::kFloat32, {}));
    const auto full_gradients = test::doubles(model.parameters().gradients());
    const auto low = test::doubles(test::logits_and_gradients(model, 4, DType::kBFloat16, {}));
    const auto low_gradients = test::doubles(model.parameters().gradients());
    const double tolerance =
        4 * std::sqrt(60.0) * test::unit_roundoff(DType::kBFloat16) / std::sqrt(3.0);
    EXPECT_LE(test::max_abs_difference(full, low), tolerance * test::max_abs(full));
    EXPECT_LE(test::max_abs_difference(full_gradients, low_gradients),
              2 * tolerance * test::max_abs(full_gradients));
    EXPECT_NE(full, low);
  }
}

TEST(FamilyParity, DoesNotDependOnThreads) {
  for (const ModelConfig& c : test::tiny_models()) {
    SCOPED_TRACE(test::title_of(c));
    for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      Classifier model(c, 1);
      test::perturb(model.parameters(), 0.1);
      if (dtype == DType::kBFloat16) model.parameters().enable_bfloat16();
      Tensor logits, gradients;
      for (int threads : test::kThreadCounts) {
        test::Threads scope(threads);
        const Tensor got = test::logits_and_gradients(model, 5, dtype, training());
        if (threads == 1) {
          logits = got;
          gradients = model.parameters().gradients().clone();
        }
        EXPECT_TRUE(test::same_bits(got, logits)) << threads << " threads";
        EXPECT_TRUE(test::same_bits(model.parameters().gradients(), gradients))
            << threads << " threads, " << name_of(dtype);
      }
    }
  }
}

}  // namespace
}  // namespace dtn
