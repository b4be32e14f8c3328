// Pairs of picture files: partners, halves, direction, equal crops, and errors.
#include "tasks/translate/picture_pairs.h"

#include "dtn/data/dataset_registry.h"
#include "tasks/translate/pair_source.h"
#include "unit/translate/pair_fixtures.h"

namespace dtn::test {
namespace {

constexpr int kSide = 8;

class PicturePairsTest : public ::testing::Test {
 protected:
  PicturePairsTest() {
    config.data.dataset = "pairs";
    config.data.root = folder.string();
  }
  // Writes a picture of noise; returns it.
  Image write(const std::string& file, std::uint32_t seed, int width = kSide, int height = kSide) {
    const Image image{width, height, 3, noise(static_cast<std::size_t>(3 * width * height), seed)};
    write_bytes(folder.path() / file, bmp_file(width, height, image.pixels));
    return image;
  }
  std::shared_ptr<const SampleSource> open(Split split = Split::kTrain) const {
    return translate_source(config, dataset_registry(), split);
  }
  void expect_refused(const std::vector<std::string>& parts) const {
    expect_error<DataError>([&] { open(); }, parts);
  }

  TempFolder folder;
  ExperimentConfig config = pair_config(kSide);
};

TEST_F(PicturePairsTest, HaveEqualNames) {
  const Image a1 = write("train/A/x/1.bmp", 1), b1 = write("train/B/x/1.bmp", 2);
  const Image a2 = write("train/A/2.bmp", 3), b2 = write("train/B/2.bmp", 4);
  const Image a3 = write("val/A/3.bmp", 5), b3 = write("val/B/3.bmp", 6);
  const auto train = open(), val = open(Split::kVal);
  ASSERT_EQ(train->size(), 2);
  const PairRow row(*train, 1);
  EXPECT_EQ(train->identity(1), "x/1.bmp");
  expect_contains(train->sample_name(1), "train/A/x/1.bmp");
  EXPECT_EQ(row.floats("input"), unit_pixels(a1));
  EXPECT_EQ(row.floats("target"), unit_pixels(b1));
  EXPECT_EQ(PairRow(*train, 0).floats("target"), unit_pixels(b2));
  EXPECT_EQ(PairRow(*val, 0).floats("input"), unit_pixels(a3));
  config.data.direction = PairDirection::kBToA;
  EXPECT_EQ(PairRow(*open(), 0).floats("input"), unit_pixels(b2));
  EXPECT_EQ(PairRow(*open(), 0).floats("target"), unit_pixels(a2));
  config.data.train = "val";
  EXPECT_EQ(PairRow(*open(), 0).floats("input"), unit_pixels(b3));
}

TEST_F(PicturePairsTest, LieSideBySide) {
  config.data.side_by_side = true;
  const Image both = write("train/1.bmp", 1, 2 * kSide);
  const Floats left = unit_pixels(part_of(both, 0, 0, kSide, kSide));
  const Floats right = unit_pixels(part_of(both, kSide, 0, kSide, kSide));
  EXPECT_EQ(PairRow(*open(), 0).floats("input"), left);
  EXPECT_EQ(PairRow(*open(), 0).floats("target"), right);
  config.data.direction = PairDirection::kBToA;
  EXPECT_EQ(PairRow(*open(), 0).floats("input"), right);
  EXPECT_EQ(PairRow(*open(), 0).floats("target"), left);
  write("train/0.bmp", 1, 2 * kSide + 1);
  expect_refused({"train/0.bmp", "17 x 8", "even width", "data.side_by_side"});
}

// The same picture twice stays the same.
TEST_F(PicturePairsTest, CropAndMirrorAlike) {
  for (int i = 0; i < 8; ++i) {
    for (const char* side : {"A", "B"}) {
      write(cat("train/", side, "/", i, ".bmp"), static_cast<std::uint32_t>(i), 30, 20);
    }
    const Image half = write(cat("halves/", i, ".bmp"), static_cast<std::uint32_t>(i), 60, 20);
    Image twice = half;
    for (int y = 0; y < 20; ++y) {
      std::copy_n(&half.pixels[static_cast<std::size_t>(y) * 180], 90,
                  &twice.pixels[static_cast<std::size_t>(y) * 180 + 90]);
    }
    write_bytes(folder.path() / cat("halves/", i, ".bmp"), bmp_file(60, 20, twice.pixels));
  }
  config.augment.hflip = 0.5;
  for (const bool halves : {false, true}) {
    config.data.side_by_side = halves;
    if (halves) config.data.train = "halves";
    for (const AugmentPreset preset : {AugmentPreset::kNone, AugmentPreset::kLight}) {
      config.augment.preset = preset;
      const auto source = open();
      std::set<Floats> crops;
      for (std::uint32_t epoch = 0; epoch < 10; ++epoch) {
        for (std::int64_t i = 0; i < 8; ++i) {
          const PairRow row(*source, i, {.seed = 7, .epoch = epoch});
          EXPECT_EQ(row.floats("input"), row.floats("target"));
          if (i == 3) crops.insert(row.floats("input"));
        }
      }
      EXPECT_EQ(crops.size(), preset == AugmentPreset::kNone ? 2u : 10u);  // mirrored or not
    }
  }
}

TEST_F(PicturePairsTest, MayDifferInChannels) {
  config.model.out_channels = 1;
  write("train/A/1.bmp", 1);
  const Image b = write("train/B/1.bmp", 2);
  Image gray;
  rgb_to_gray(b, gray);
  EXPECT_EQ(PairRow(*open(), 0).floats("target"), unit_pixels(gray));
  EXPECT_EQ(PairRow(*open(), 0).fields.at("input").shape(), (Shape{1, 3, kSide, kSide}));
}

TEST_F(PicturePairsTest, ErrorsNameFiles) {
  expect_refused({"no such folder", "train/A", "data.root"});
  write("train/A/2.bmp", 1);
  expect_refused({"no such folder", "train/B"});
  write("train/B/2.bmp", 2);
  write("train/B/3.bmp", 2);
  expect_refused({"train/B/3.bmp: has no partner", "train/A/3.bmp"});
  write("train/A/3.bmp", 2);
  write("train/A/1.bmp", 2);
  expect_refused({"train/A/1.bmp: has no partner", "train/B/1.bmp"});
  write("train/B/1.bmp", 2, kSide, kSide + 1);
  expect_refused({"A/1.bmp: has 8 x 8", "B/1.bmp has 8 x 9"});
  write("train/B/1.bmp", 2);
  write("train/B/3.bmp", 2, kSide + 2, kSide);
  expect_error<DataError>([&] { PairRow(*open(), 2); }, {"A/3.bmp: has 8 x 8", "B/3.bmp has 10"});
  expect_error<DataError>([&] { open(Split::kVal); }, {"no such folder", "val/A"});
}

TEST_F(PicturePairsTest, DoNotDependOnWorkers) {
  for (std::uint32_t i = 0; i < 9; ++i) {
    write(cat("train/A/", i, ".bmp"), i, 20, 10);
    write(cat("train/B/", i, ".bmp"), i + 20, 20, 10);
  }
  config.augment.preset = AugmentPreset::kLight;
  const std::vector<Floats> rows = loaded_epoch(open(), 0);
  ASSERT_EQ(rows.size(), 8u);
  EXPECT_EQ(loaded_epoch(open(), 3), rows);
}

}  // namespace
}  // namespace dtn::test
