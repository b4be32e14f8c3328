// Pairs of an image and its corrupted copy: their pixels, draws, styles and style images.
#include "tasks/translate/corrupted_samples.h"

#include "unit/translate/pair_fixtures.h"

namespace dtn::test {
namespace {

constexpr int kSide = 16;

ExperimentConfig noisy_config(int channels = 3) {
  ExperimentConfig config = pair_config(kSide, channels);
  config.data.corruptions = {"fog/1-2", "gaussian_noise/3"};
  return config;
}

ExperimentConfig with_styles(ExperimentConfig config, ConditionFrom from = ConditionFrom::kIndex) {
  config.model.condition.from = from;
  config.model.condition.styles = 3;
  return config;
}

std::shared_ptr<const NoisePictures> pictures(std::int64_t count = 12, int side = kSide,
                                              int channels = 3) {
  return std::make_shared<NoisePictures>(count, side, side, channels);
}

// Returns what the corruption makes of a picture, as a field. Grey is replicated.
Floats corrupted(const Image& clean, const char* name, int severity, const CorruptionKey& key) {
  CorruptScratch scratch;
  Image color = clean, out;
  if (clean.channels == 1) gray_to_rgb(clean, color);
  apply_adapted_corruption(color, {find_corruption(name), severity}, key, nullptr, scratch, out);
  Floats values = unit_pixels(out);
  values.resize(clean.pixels.size());  // the first channel of grey
  return values;
}

TEST(CorruptedSamples, EvaluationTakesCellsInTurnAndFixedDraws) {
  const auto images = pictures();
  const CorruptedSamples samples(images, with_styles(noisy_config()), Split::kVal);
  const std::pair<const char*, int> cells[] = {{"fog", 1}, {"fog", 2}, {"gaussian_noise", 3}};
  for (std::int64_t i = 0; i < 7; ++i) {
    const PairRow row(samples, i, {.seed = 7, .epoch = 3});
    const auto& [name, severity] = cells[i % 3];
    EXPECT_EQ(row.style(), i % 3);
    EXPECT_EQ(row.floats("target"), unit_pixels(images->picture(i)));
    EXPECT_EQ(row.floats("input"),
              corrupted(images->picture(i), name, severity, {7, cat("val ", i)}));
    EXPECT_EQ(row.floats("input"), PairRow(samples, i, {.seed = 7, .epoch = 0}).floats("input"));
  }
}

TEST(CorruptedSamples, TrainingDrawsByEpochAndSample) {
  const auto images = pictures();
  const CorruptedSamples samples(images, with_styles(noisy_config()), Split::kTrain);
  const std::pair<const char*, int> cells[] = {{"fog", 1}, {"fog", 2}, {"gaussian_noise", 3}};
  std::map<std::int64_t, int> counts;
  constexpr std::uint32_t kEpochs = 50;
  for (std::uint32_t epoch = 0; epoch < kEpochs; ++epoch) {
    for (std::int64_t i = 0; i < 12; ++i) {
      const PairRow row(samples, i, {.seed = 7, .epoch = epoch});
      ++counts[row.style()];
      if (epoch > 1) continue;
      const auto& [name, severity] = cells[row.style()];
      EXPECT_EQ(row.floats("input"),
                corrupted(images->picture(i), name, severity, {7, cat("train ", epoch, " ", i)}));
      EXPECT_EQ(row.floats("target"), unit_pixels(images->picture(i)));
    }
  }
  ASSERT_EQ(counts.size(), 3u);
  const double n = 12 * kEpochs, deviation = std::sqrt(n * 2 / 9);
  for (const auto& [style, count] : counts) EXPECT_NEAR(count, n / 3, 4 * deviation) << style;
  const SampleKey key{.seed = 7, .epoch = 1};
  EXPECT_EQ(PairRow(samples, 3, key).floats("input"), PairRow(samples, 3, key).floats("input"));
  EXPECT_NE(PairRow(samples, 3, key).floats("input"),
            PairRow(samples, 3, {.seed = 7, .epoch = 2}).floats("input"));
  EXPECT_NE(PairRow(samples, 3, key).floats("input"),
            PairRow(samples, 3, {.seed = 8, .epoch = 1}).floats("input"));
}

TEST(CorruptedSamples, MakesTargetFromInput) {
  ExperimentConfig config = noisy_config();
  const PairRow restored(CorruptedSamples(pictures(), config, Split::kVal), 5);
  config.data.corrupted = CorruptedPicture::kTarget;
  const PairRow applied(CorruptedSamples(pictures(), config, Split::kVal), 5);
  EXPECT_EQ(applied.floats("input"), restored.floats("target"));
  EXPECT_EQ(applied.floats("target"), restored.floats("input"));
  EXPECT_NE(applied.floats("target"), applied.floats("input"));
  EXPECT_FALSE(applied.fields.has("style"));
}

TEST(CorruptedSamples, KeepFirstChannelOfGray) {
  const auto images = pictures(12, kSide, 1);
  const CorruptedSamples samples(images, noisy_config(1), Split::kVal);
  for (std::int64_t i : {1, 2}) {
    const PairRow row(samples, i);
    EXPECT_EQ(row.fields.at("input").shape(), (Shape{1, 1, kSide, kSide}));
    EXPECT_EQ(row.floats("target"), unit_pixels(images->picture(i)));
    EXPECT_EQ(row.floats("input"), corrupted(images->picture(i), i == 1 ? "fog" : "gaussian_noise",
                                             i == 1 ? 2 : 3, {7, cat("val ", i)}));
  }
}

// Both pictures show the same crop: a corruption that keeps the places of pixels shows it.
TEST(CorruptedSamples, CropsAndMirrorsBeforeCorruption) {
  ExperimentConfig config = noisy_config();
  config.data.corruptions = {"contrast/1"};
  config.augment.hflip = 1;
  const auto images = std::make_shared<NoisePictures>(4, kSide + 6, kSide, 3);
  const PairRow row(CorruptedSamples(images, config, Split::kTrain), 2);
  const Image centre = part_of(images->picture(2), 3, 0, kSide, kSide);
  EXPECT_EQ(row.floats("target"), unit_pixels(centre, true));
  Image mirrored = centre;
  ImageOpsWorkspace ops;
  flip_horizontally(mirrored, ops);
  EXPECT_EQ(row.floats("input"), corrupted(mirrored, "contrast", 1, {7, "train 0 2"}));
  // An evaluation does not mirror.
  EXPECT_EQ(PairRow(CorruptedSamples(images, config, Split::kVal), 2).floats("target"),
            unit_pixels(centre));
}

TEST(CorruptedSamples, RandomCropsOfPresetLight) {
  ExperimentConfig config = noisy_config();
  const auto images = pictures(4, 40);
  config.augment.preset = AugmentPreset::kLight;
  config.augment.hflip = 0.5;
  const CorruptedSamples samples(images, config, Split::kTrain);
  const SampleKey key{.seed = 7, .epoch = 4, .sample = 1};
  const Transform transform(config.data, config.augment, kSide, 3, true);
  TransformWorkspace workspace;
  const PreparedImage wanted = transform.prepare(images->picture(1), key, workspace);
  EXPECT_EQ(PairRow(samples, 1, key).floats("target"), unit_pixels(*wanted.image, wanted.flip));
  EXPECT_NE(PairRow(samples, 1, key).floats("target"),
            PairRow(samples, 1, {.seed = 7, .epoch = 5}).floats("target"));
}

TEST(CorruptedSamples, StyleImageIsAnotherImageUnderTheSameCell) {
  ExperimentConfig config = with_styles(noisy_config(), ConditionFrom::kImage);
  // Contrast has no noise, so the other image can be told by its pixels.
  config.data.corruptions = {"contrast/1", "contrast/5"};
  const auto images = pictures(5);
  for (const Split split : {Split::kTrain, Split::kVal}) {
    const CorruptedSamples samples(images, config, split);
    std::set<std::int64_t> others;
    for (std::uint32_t epoch = 0; epoch < 40; ++epoch) {
      const PairRow row(samples, 2, {.seed = 7, .epoch = epoch});
      const bool first = row.floats("input") == corrupted(images->picture(2), "contrast", 1, {});
      for (std::int64_t other = 0; other < 5; ++other) {
        const Floats wanted = corrupted(images->picture(other), "contrast", first ? 1 : 5, {});
        if (row.floats("style_image") == wanted) others.insert(other);
      }
    }
    if (split == Split::kTrain) {
      EXPECT_EQ(others, (std::set<std::int64_t>{0, 1, 3, 4}));
    } else {
      EXPECT_EQ(others.size(), 1u);
      EXPECT_FALSE(others.contains(2));
    }
  }
  const PairRow alone(CorruptedSamples(pictures(1), config, Split::kVal), 0);
  EXPECT_EQ(alone.floats("style_image"), alone.floats("input"));
}

TEST(CorruptedSamples, DamagedStyleImagesAreReplaced) {
  const ExperimentConfig config = with_styles(noisy_config(), ConditionFrom::kImage);
  const auto most =
      std::make_shared<NoisePictures>(4, kSide, kSide, 3, std::vector<std::int64_t>{0, 1});
  const CorruptedSamples samples(most, config, Split::kTrain);
  for (std::uint32_t epoch = 0; epoch < 20; ++epoch) {
    const PairRow row(samples, 2, {.seed = 7, .epoch = epoch});
    EXPECT_NE(row.floats("style_image"), row.floats("input"));
  }
  expect_error<DataError>([&] { PairRow(samples, 1); }, {"picture-1 is damaged"});
  const auto rest =
      std::make_shared<NoisePictures>(3, kSide, kSide, 3, std::vector<std::int64_t>{0, 1});
  expect_error<DataError>([&] { PairRow(CorruptedSamples(rest, config, Split::kTrain), 2); },
                          {"is damaged"});
}

TEST(CorruptedSamples, FrostHasTexturesOfItsOwn) {
  ExperimentConfig config = pair_config(224);
  config.data.corruptions = {"frost/2"};
  const auto images = pictures(1, 224);
  const PairRow row(CorruptedSamples(images, config, Split::kVal), 0);
  EXPECT_NE(row.floats("input"), row.floats("target"));
}

TEST(CorruptedSamples, DoNotDependOnWorkersRanksOrResume) {
  const auto source = std::make_shared<CorruptedSamples>(
      pictures(21), with_styles(noisy_config(), ConditionFrom::kImage), Split::kTrain);
  const std::vector<Floats> rows = loaded_epoch(source, 0);
  ASSERT_EQ(rows.size(), 20u);
  EXPECT_EQ(loaded_epoch(source, 3), rows);
  const std::vector<Floats> resumed = loaded_epoch(source, 2, 0, 1, 2);
  EXPECT_EQ(resumed, std::vector<Floats>(rows.begin() + 8, rows.end()));
  std::multiset<Floats> shared;
  for (int rank = 0; rank < 2; ++rank) {
    for (Floats& row : loaded_epoch(source, 1, rank, 2)) shared.insert(std::move(row));
  }
  EXPECT_EQ(shared, std::multiset<Floats>(rows.begin(), rows.end()));
}

}  // namespace
}  // namespace dtn::test
