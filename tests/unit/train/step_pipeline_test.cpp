// The report of a step: its loss, the terms of the task and the number of updates.
#include "train/step_pipeline.h"

#include "tensors.h"

namespace dtn {
namespace {

Tensor value(float v) { return Tensor::full({1}, DType::kFloat32, v); }

// Two micro-batches; the second has three times the weight.
void add_micro_batches(StepPipeline& pipeline) {
  pipeline.zero_sums();
  pipeline.add_to_sums(value(2), {{"near", value(1)}, {"far", value(8)}}, 0.5);
  pipeline.add_to_sums(value(4), {{"near", value(3)}, {"far", value(-8)}}, 1.5);
}

TEST(StepPipeline, ReportsTermsAsMeans) {
  StepPipeline pipeline(kCpu, false);
  for (int step = 0; step < 2; ++step) {  // the second starts from zero
    pipeline.start({0.1, 0.05, 0}, {}, 2, [&] { add_micro_batches(pipeline); });
    EXPECT_EQ(pipeline.unfinished(), 1u);
    EXPECT_EQ(*pipeline.sums().data<float>(), 0.5f * 2 + 1.5f * 4);
    const StepReport report = pipeline.finish(nullptr);
    EXPECT_EQ(pipeline.unfinished(), 0u);
    ASSERT_EQ(report.terms.size(), 2u);
    EXPECT_EQ(report.terms[0], std::pair(std::string("near"), (0.5 * 1 + 1.5 * 3) / 2));
    EXPECT_EQ(report.terms[1], std::pair(std::string("far"), (0.5 * 8 - 1.5 * 8) / 2));
    EXPECT_FALSE(report.idle_seconds.has_value());
  }
  EXPECT_THROW(pipeline.finish(nullptr), Error);
}

// A term over some of the samples is their mean over all micro-batches, whichever has them.
TEST(StepPipeline, ReportsTermsOverTheirSamples) {
  StepPipeline pipeline(kCpu, false);
  pipeline.start({0.1, 0.05, 0}, {}, 2, [&] {
    pipeline.zero_sums();
    // Four samples, one of them counts, with 6; then four, two of them count, with 1 and 2.
    pipeline.add_to_sums(
        value(2),
        {{"part", value(1.5f), value(0.25f)}, {"none", value(0), value(0)}, {"all", value(3)}}, 1);
    pipeline.add_to_sums(
        value(4),
        {{"part", value(0.75f), value(0.5f)}, {"none", value(0), value(0)}, {"all", value(5)}}, 1);
  });
  const StepReport report = pipeline.finish(nullptr);
  ASSERT_EQ(report.terms.size(), 3u);
  EXPECT_DOUBLE_EQ(report.terms[0].second, (6 + 1 + 2) / 3.0);
  EXPECT_TRUE(std::isnan(report.terms[1].second));
  EXPECT_DOUBLE_EQ(report.terms[2].second, 4);
  EXPECT_EQ(report.shares, (std::vector<double>{0.375, 0, 1}));
}

TEST(StepPipeline, HoldsAtMostMaxTerms) {
  StepPipeline pipeline(kCpu, false);
  std::vector<Term> terms;
  for (std::size_t i = 0; i < Task::kMaxTerms; ++i) {
    terms.push_back({cat("term", i), value(static_cast<float>(i))});
  }
  pipeline.start({0.1, 0.05, 0}, {}, 1, [&] {
    pipeline.zero_sums();
    pipeline.add_to_sums(value(1), terms, 1);
  });
  const StepReport report = pipeline.finish(nullptr);
  ASSERT_EQ(report.terms.size(), Task::kMaxTerms);
  EXPECT_EQ(report.terms.back().second, static_cast<double>(Task::kMaxTerms - 1));
  terms.push_back({"one too many", value(0)});
  EXPECT_THROW(pipeline.add_to_sums(value(1), terms, 1), Error);
}

TEST(StepPipeline, SeedsGradientWithWeight) {
  StepPipeline pipeline(kCpu, false);
  for (double weight : {1.0, 0.5, 1.5, 0.5}) {
    const Tensor seed = pipeline.seed_of(weight);
    EXPECT_EQ(seed.shape(), Shape({1}));
    EXPECT_EQ(*seed.data<float>(), static_cast<float>(weight));
  }
  EXPECT_EQ(pipeline.seed_of(0.5).raw(), pipeline.seed_of(0.5).raw()) << "a graph finds it again";
}

TEST(StepPipeline, ContinuesUpdateCount) {
  StepPipeline pipeline(kCpu, false);
  EXPECT_EQ(pipeline.updates(), 0);
  pipeline.set_updates(123'456'789'012);
  EXPECT_EQ(pipeline.updates(), 123'456'789'012);
  EXPECT_EQ(pipeline.late_updates(), 0);
  pipeline.set_late_updates(98'765'432'109);
  EXPECT_EQ(pipeline.late_updates(), 98'765'432'109);
  EXPECT_EQ(pipeline.updates(), 123'456'789'012);
}

}  // namespace
}  // namespace dtn
