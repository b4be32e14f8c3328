// Generated pictures of shapes: maps, textures, questions and answers.
#include "tasks/translate/drawn_samples.h"

#include <cmath>
#include <numbers>

#include "dtn/data/dataset_registry.h"
#include "tasks/translate/drawn_picture.h"
#include "tasks/translate/pair_source.h"
#include "unit/translate/pair_fixtures.h"

namespace dtn::test {
namespace {

constexpr std::size_t kArea = 32 * 32;

ExperimentConfig drawn_config(DrawnTask kind) {
  const bool is_map = kind != DrawnTask::kQuestion;
  ExperimentConfig config = pair_config(32, is_map ? 4 : 3);
  config.model.out_channels = is_map ? 3 : 1;
  config.data.dataset = "drawn";
  config.data.drawn = kind;
  config.data.size = 50;
  if (is_map) {
    config.model.condition.size = 4;
    config.model.norm.type = "spade";
  } else {
    config.model.condition.size = 7;
    config.model.condition.from = ConditionFrom::kVector;
  }
  return config;
}

std::shared_ptr<const SampleSource> open(const ExperimentConfig& config,
                                         Split split = Split::kTrain) {
  return translate_source(config, dataset_registry(), split);
}

TEST(DrawnPictures, ShapesFitAndDoNotOverlap) {
  std::map<std::size_t, int> counts;
  for (std::uint32_t index = 0; index < 500; ++index) {
    const drawn::Picture picture = drawn::plan_picture(3, 0, index);
    ++counts[picture.shapes.size()];
    std::vector<int> covered(kArea);
    for (const drawn::Shape& shape : picture.shapes) {
      EXPECT_TRUE(8 <= shape.size && shape.size <= 14);
      EXPECT_TRUE(shape.left >= 0 && shape.left + shape.size <= 32);
      EXPECT_TRUE(shape.top >= 0 && shape.top + shape.size <= 32);
      int pixels = 0;
      for (int y = 0; y < 32; ++y) {
        for (int x = 0; x < 32; ++x) {
          if (!shape.covers(x, y)) continue;
          ++pixels;
          ++covered[static_cast<std::size_t>(y * 32 + x)];
        }
      }
      // Areas of the square around the shape: pi / 4, all and a half.
      const double share = shape.form == drawn::Form::kDisk     ? std::numbers::pi / 4
                           : shape.form == drawn::Form::kSquare ? 1
                                                                : 0.5;
      EXPECT_NEAR(pixels, share * shape.size * shape.size, 1.01 * shape.size);
    }
    EXPECT_LE(*std::ranges::max_element(covered), 1);
  }
  ASSERT_EQ(counts.size(), 3u);
  for (const auto& [shapes, count] : counts) EXPECT_GT(count, 100) << shapes;
}

TEST(DrawnSamples, MapsAreOneHotAndTexturesFollowThem) {
  const auto source = open(drawn_config(DrawnTask::kMap));
  ASSERT_EQ(source->size(), 50);
  // Each class has a value of its own at each place of a pattern of 4 x 4 pixels.
  std::map<std::array<std::size_t, 4>, std::set<float>> values;
  for (std::int64_t i = 0; i < 50; ++i) {
    const PairRow row(*source, i);
    const Floats input = row.floats("input"), target = row.floats("target");
    EXPECT_EQ(row.floats("map"), input);
    for (std::size_t at = 0; at < kArea; ++at) {
      float sum = 0;
      std::size_t pixel_class = 0;
      for (std::size_t k = 0; k < 4; ++k) {
        const float one = input[k * kArea + at];
        ASSERT_TRUE(one == 0 || one == 1);
        sum += one;
        if (one == 1) pixel_class = k;
      }
      ASSERT_EQ(sum, 1);
      for (std::size_t c = 0; c < 3; ++c) {
        values[{pixel_class, c, at / 32 % 4, at % 4}].insert(target[c * kArea + at]);
      }
    }
  }
  EXPECT_EQ(values.size(), 4u * 3 * 16);
  std::map<std::size_t, std::vector<float>> patterns;
  for (const auto& [place, found] : values) {
    EXPECT_EQ(found.size(), 1u);
    patterns[place[0]].push_back(*found.begin());
  }
  for (std::size_t a = 0; a < 4; ++a) {
    for (std::size_t b = 0; b < a; ++b) EXPECT_NE(patterns[a], patterns[b]);
  }
}

// Plain maps have the textures of the maps with shapes.
TEST(DrawnSamples, PlainMapsHaveOneClass) {
  const auto maps = open(drawn_config(DrawnTask::kMap));
  const auto plain = open(drawn_config(DrawnTask::kPlainMap), Split::kVal);
  for (std::int64_t i = 0; i < 8; ++i) {
    const PairRow row(*plain, i);
    const auto pixel_class = static_cast<std::size_t>(i % 4);
    const Floats input = row.floats("input"), texture = row.floats("target");
    EXPECT_EQ(row.floats("map"), input);
    for (std::size_t at = 0; at < 4 * kArea; ++at) {
      ASSERT_EQ(input[at], at / kArea == pixel_class ? 1 : 0);
    }
    int compared = 0;
    for (std::int64_t m = 0; m < 50; ++m) {
      const PairRow other(*maps, m);
      const Floats classes = other.floats("input"), target = other.floats("target");
      for (std::size_t at = 0; at < kArea; ++at) {
        if (classes[pixel_class * kArea + at] == 0) continue;
        ++compared;
        for (std::size_t c = 0; c < 3; ++c) {
          ASSERT_EQ(target[c * kArea + at], texture[c * kArea + at]);
        }
      }
    }
    EXPECT_GT(compared, 100);
  }
}

TEST(DrawnSamples, AnswersMarkWhatIsAskedFor) {
  const auto source = open(drawn_config(DrawnTask::kQuestion));
  int empty = 0, marked = 0;
  for (std::uint32_t i = 0; i < 50; ++i) {
    const PairRow row(*source, i);
    const Floats question = row.floats("vector"), answer = row.floats("target");
    ASSERT_EQ(question.size(), 7u);
    ASSERT_EQ(std::count(question.begin(), question.begin() + 3, 1.0f), 1);
    ASSERT_EQ(std::count(question.begin() + 3, question.end(), 1.0f), 1);
    const drawn::Picture picture = drawn::plan_picture(7, 0, i);
    Floats wanted(kArea);
    const Floats input = row.floats("input");
    for (const drawn::Shape& shape : picture.shapes) {
      for (std::size_t at = 0; at < kArea; ++at) {
        if (!shape.covers(static_cast<int>(at % 32), static_cast<int>(at / 32))) continue;
        const float red = input[at], green = input[kArea + at], blue = input[2 * kArea + at];
        const std::size_t color = red > 0.5f && green > 0.5f ? 3
                                  : red > 0.5f               ? 0
                                  : green > blue             ? 1
                                                             : 2;
        EXPECT_EQ(color, static_cast<std::size_t>(shape.color));
        const bool fits =
            question[static_cast<std::size_t>(shape.form)] == 1 && question[3 + color] == 1;
        wanted[at] = fits ? 1 : 0;
      }
    }
    EXPECT_EQ(answer, wanted);
    (*std::ranges::max_element(answer) > 0 ? marked : empty) += 1;
  }
  EXPECT_GT(empty, 4);
  EXPECT_GT(marked, 28);
}

// Within five standard deviations.
TEST(DrawnPictures, AQuarterOfTheQuestionsFitsNothing) {
  constexpr int kCount = 4000;
  int empty = 0;
  for (std::uint32_t index = 0; index < kCount; ++index) {
    const drawn::Picture picture = drawn::plan_picture(11, 1, index);
    empty += std::ranges::none_of(
        picture.shapes, [&](const drawn::Shape& s) { return picture.question.asks_for(s); });
  }
  EXPECT_NEAR(empty, kCount / 4.0, 5 * std::sqrt(kCount * 3 / 16.0));
}

TEST(DrawnSamples, DependOnSeedSplitAndIndexAlone) {
  ExperimentConfig config = drawn_config(DrawnTask::kQuestion);
  const auto train = open(config), val = open(config, Split::kVal);
  const Floats first = PairRow(*train, 4).floats("input");
  EXPECT_EQ(PairRow(*train, 4, {.seed = 9, .epoch = 3}).floats("input"), first);
  EXPECT_NE(PairRow(*train, 5).floats("input"), first);
  EXPECT_NE(PairRow(*val, 4).floats("input"), first);
  EXPECT_EQ(loaded_epoch(train, 2), loaded_epoch(train, 0));
  config.seed = 8;
  EXPECT_NE(PairRow(*open(config), 4).floats("input"), first);
  EXPECT_NE(open(config)->identity(4), train->identity(4));
  config.data.size.reset();
  EXPECT_EQ(open(config)->size(), 1024);
  EXPECT_EQ(open(config, Split::kVal)->size(), 256);
}

TEST(DrawnSamples, HaveFieldsThatModelReads) {
  ExperimentConfig config = drawn_config(DrawnTask::kQuestion);
  config.model.condition.from.reset();
  EXPECT_FALSE(PairRow(*open(config), 0).fields.has("vector"));
  config = drawn_config(DrawnTask::kMap);
  config.model.norm.type = "bn";
  EXPECT_FALSE(PairRow(*open(config), 0).fields.has("map"));
}

}  // namespace
}  // namespace dtn::test
