// Random pairs of pictures with the fields that the model reads.
#include "tasks/translate/synthetic_pairs.h"

#include <algorithm>

#include "dtn/data/dataset_registry.h"
#include "tasks/translate/pair_source.h"
#include "unit/translate/pair_fixtures.h"

namespace dtn::test {
namespace {

ExperimentConfig synthetic_config(const char* norm, std::optional<ConditionFrom> from) {
  ExperimentConfig config = pair_config(8);
  config.data.dataset = "synthetic";
  config.model.out_channels = 1;
  config.model.decoder_norm.emplace().type = norm;
  config.model.condition.from = from;
  config.model.condition.size = 4;
  config.model.condition.styles = 3;
  return config;
}

std::vector<std::string> field_names(const SampleSource& source) {
  std::vector<std::string> names;
  for (const FieldSpec& spec : source.host_fields()) names.push_back(spec.name);
  return names;
}

TEST(SyntheticPairs, HaveTheFieldsThatTheModelReads) {
  using Names = std::vector<std::string>;
  const auto names = [](const char* norm, std::optional<ConditionFrom> from) {
    const auto source =
        translate_source(synthetic_config(norm, from), dataset_registry(), Split::kTrain);
    return field_names(*source);
  };
  EXPECT_EQ(names("bn", {}), (Names{"input", "target"}));
  EXPECT_EQ(names("cin", ConditionFrom::kIndex), (Names{"input", "target", "style"}));
  EXPECT_EQ(names("cbn", ConditionFrom::kVector), (Names{"input", "target", "vector"}));
  EXPECT_EQ(names("adain", ConditionFrom::kImage), (Names{"input", "target", "style_image"}));
  EXPECT_EQ(names("spade", {}), (Names{"input", "target", "map"}));
}

TEST(SyntheticPairs, PixelsLieInUnitRangeAndDiffer) {
  const SyntheticPairs pairs(synthetic_config("cin", ConditionFrom::kIndex), Split::kTrain);
  EXPECT_EQ(pairs.size(), 1024);
  const PairRow first(pairs, 0), again(pairs, 0), second(pairs, 4);
  EXPECT_EQ(first.floats("input").size(), 3u * 64);
  EXPECT_EQ(first.floats("target").size(), 64u);
  for (const char* field : {"input", "target"}) {
    const Floats pixels = first.floats(field);
    EXPECT_TRUE(std::ranges::all_of(pixels, [](float v) { return 0 <= v && v < 1; }));
    EXPECT_EQ(pixels, again.floats(field));
    EXPECT_NE(pixels, second.floats(field));
  }
  EXPECT_EQ(second.style(), 1);
  const SyntheticPairs val(synthetic_config("bn", {}), Split::kVal);
  EXPECT_EQ(val.size(), 256);
  EXPECT_NE(PairRow(val, 0).floats("input"), first.floats("input"));
}

}  // namespace
}  // namespace dtn::test
