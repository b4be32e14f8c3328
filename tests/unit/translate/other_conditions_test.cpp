// Samples with the conditions of other samples.
#include "tasks/translate/other_conditions.h"

#include <gtest/gtest.h>

#include <utility>

#include "dtn/data/dataset_registry.h"
#include "tasks/translate/corrupted_samples.h"
#include "tasks/translate/pair_source.h"
#include "unit/translate/pair_fixtures.h"

namespace dtn::test {
namespace {

ExperimentConfig question_config() {
  ExperimentConfig config = pair_config(32);
  config.model.out_channels = 1;
  config.model.condition.size = 7;
  config.model.condition.from = ConditionFrom::kVector;
  config.data.dataset = "drawn";
  config.data.drawn = DrawnTask::kQuestion;
  config.data.size = 5;
  return config;
}

ExperimentConfig style_config() {
  ExperimentConfig config = pair_config(8);
  config.data.corruptions = {"brightness/5", "contrast/4", "saturate/2"};
  config.data.corrupted = CorruptedPicture::kTarget;
  config.model.condition.from = ConditionFrom::kIndex;
  config.model.condition.styles = 3;
  return config;
}

TEST(OtherConditions, AreThoseOfTheNextSample) {
  const ExperimentConfig config = question_config();
  const auto whole = translate_source(config, dataset_registry(), Split::kVal);
  const OtherConditions shuffled(whole, config.model);
  ASSERT_EQ(shuffled.size(), 5);
  EXPECT_EQ(shuffled.host_fields(), whole->host_fields());
  EXPECT_EQ(shuffled.identity(3), whole->identity(3));
  for (std::int64_t i = 0; i < 5; ++i) {
    const PairRow row(shuffled, i), own(*whole, i), next(*whole, (i + 1) % 5);
    EXPECT_EQ(row.floats("vector"), next.floats("vector"));
    for (const char* name : {"input", "target"}) EXPECT_EQ(row.floats(name), own.floats(name));
  }
  EXPECT_NE(PairRow(*whole, 0).floats("vector"), PairRow(*whole, 1).floats("vector"));
}

// Only the damaged samples themselves are lost.
TEST(OtherConditions, PassOverDamagedSamples) {
  const ExperimentConfig config = style_config();
  const auto shuffled = [&](std::vector<std::int64_t> damaged) {
    auto pictures = std::make_shared<NoisePictures>(7, 8, 8, 3, std::move(damaged));
    return OtherConditions(
        std::make_shared<CorruptedSamples>(std::move(pictures), config, Split::kVal), config.model);
  };
  const auto style = [](const SampleSource& source, std::int64_t index) {
    return PairRow(source, index).fields.at("style").data<std::int64_t>()[0];
  };
  const OtherConditions two = shuffled({2, 3});  // sample i has the style i % 3
  EXPECT_EQ(style(two, 0), 1);
  EXPECT_EQ(style(two, 1), 4 % 3);
  EXPECT_THROW(style(two, 2), DataError);
  EXPECT_EQ(style(two, 4), 5 % 3);
  EXPECT_EQ(style(shuffled({0, 1, 2, 3, 5, 6}), 4), 4 % 3);
}

TEST(OtherConditions, AreOneStyleForAll) {
  const ExperimentConfig config = style_config();
  const auto whole = std::make_shared<CorruptedSamples>(std::make_shared<NoisePictures>(7, 8, 8, 3),
                                                        config, Split::kVal);
  const OtherConditions second(whole, config.model, 1);
  for (std::int64_t i = 0; i < 7; ++i) {
    const PairRow row(second, i), own(*whole, i);
    EXPECT_EQ(row.fields.at("style").data<std::int64_t>()[0], 1);
    EXPECT_EQ(row.fields.at("own_style").data<std::int64_t>()[0], i % 3);
    EXPECT_EQ(row.floats("target"), own.floats("target"));
  }
}

TEST(OtherConditions, NeedTheFieldsOfTheModel) {
  const ExperimentConfig config = question_config();
  const auto whole = translate_source(config, dataset_registry(), Split::kVal);
  EXPECT_THROW(OtherConditions(whole, config.model, 0), Error);
  EXPECT_THROW(OtherConditions(whole, style_config().model), Error);
}

}  // namespace
}  // namespace dtn::test
