// The combined stages of training preprocessing; image_ops and auto_augment test the operations.
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <span>

#include "data/feed/loader.h"
#include "data/sample/auto_augment.h"
#include "data/sample/transforms.h"
#include "dtn/config/load.h"
#include "dtn/core/check.h"
#include "dtn/data/datasets.h"
#include "golden/data/fixtures.h"
#include "samples.h"
#include "transform_runs.h"

namespace dtn {
namespace {

using golden::procedural_image;

constexpr const char* kRand = "rand-m9-mstd0.5-inc1";
constexpr int kSide = 24;

AugmentConfig with(AugmentPreset preset, const std::string& policy, double jitter) {
  AugmentConfig augment;
  augment.preset = preset;
  augment.policy = policy;
  augment.color_jitter = jitter;
  return augment;
}

DataConfig data_config() {
  DataConfig data;
  data.mean = {0.25};  // fills with 64
  data.interpolation = Interpolation::kBilinear;
  return data;
}

std::vector<float> run(const Transform& transform, const Image& image, const SampleKey& key,
                       TransformWorkspace& workspace) {
  std::vector<float> out(static_cast<std::size_t>(transform.output_size()));
  test::apply(transform, image, key, workspace, out.data());
  return out;
}

// Applies the stages one by one to a resized crop that is not flipped yet.
std::vector<float> by_hand(Image crop, bool flip, const AugmentConfig& augment, bool jittered,
                           const SampleKey& key) {
  ImageOpsWorkspace ops;
  if (flip) flip_horizontally(crop, ops);
  const AugmentGeometry geometry{AffineFilter::kBilinear, {64, 64, 64}};
  AutoAugment(augment.policy, geometry).apply(crop, key, ops);
  const double j = augment.color_jitter;
  if (jittered) apply_steps(ColorJitter(j, j, j).draw(key), {}, crop, ops);
  std::vector<float> out(crop.pixels.size());
  test::normalize_to_chw(crop, resolve_normalization(data_config(), crop.channels), false,
                         out.data());
  return out;
}

class AugmentStages : public testing::TestWithParam<int> {};  // channels

TEST_P(AugmentStages, CropFlipPolicyJitterNormalize) {
  const int channels = GetParam();
  const Image image = procedural_image(5, 97, 71, channels);
  TransformWorkspace workspace;
  const struct {
    const char* policy;
    double jitter;
    bool jittered;
  } cases[] = {{kRand, 0, false},    {kRand, 0.4, false}, {"three", 0, false},
               {"three", 0.3, true}, {"none", 0.3, true}, {"none", 0, false}};
  std::set<std::vector<float>> distinct;
  for (const auto& c : cases) {
    const AugmentConfig augment = with(AugmentPreset::kLight, c.policy, c.jitter);
    const Transform transform(data_config(), augment, kSide, channels, true);
    for (std::uint64_t sample = 0; sample < 40; ++sample) {
      const SampleKey key{11, 3, sample};
      const CropBox box = sample_crop(97, 71, augment, key);
      Image crop;
      resize(crop_view(view(image), box.left, box.top, box.width, box.height), kSide, kSide,
             Interpolation::kBilinear, workspace.resample, crop);
      const auto got = run(transform, image, key, workspace);
      EXPECT_EQ(got, by_hand(crop, box.flip, augment, c.jittered, key))
          << c.policy << ", jitter " << c.jitter << ", sample " << sample;
      distinct.insert(got);
    }
  }
  // The policies give different images; of the six cases only jitter with RandAugment changes
  // nothing. Some operations may leave a one-channel image unchanged.
  EXPECT_GT(distinct.size(), channels == 3 ? 150u : 110u);
  EXPECT_LE(distinct.size(), 200u);
}

INSTANTIATE_TEST_SUITE_P(Channels, AugmentStages, testing::Values(1, 3));

TEST(Augment, EncodedAndDecodedImagesGiveSameResult) {
  TransformWorkspace workspace;
  for (const char* name : {"420.jpg", "gray.jpg", "cmyk.jpg", "palette4.png"}) {
    const auto bytes = golden::image_bytes(name);
    for (int channels : {1, 3}) {
      for (AugmentPreset preset :
           {AugmentPreset::kDeit, AugmentPreset::kOfficial, AugmentPreset::kDeit3}) {
        const Transform transform({}, augment_preset(preset), kSide, channels, true);
        for (std::uint64_t sample = 0; sample < 12; ++sample) {
          const SampleKey key{1, 2, sample};
          std::vector<float> out(static_cast<std::size_t>(transform.output_size()));
          test::decode_and_apply(transform, bytes, name, key, workspace, out.data());
          EXPECT_EQ(out, run(transform, decode_image(bytes, name), key, workspace)) << name;
        }
      }
    }
  }
}

// Without a preset images are prepared as for evaluation. The result may be the data set's own
// image, which must not change.
TEST(Augment, WithoutPresetAppliesOnlyConfiguredOperations) {
  const Image image = procedural_image(3, kSide, kSide);
  DataConfig data = data_config();
  data.crop_pct = 1;
  TransformWorkspace workspace;
  const AugmentConfig augment = with(AugmentPreset::kNone, "three", 0.3);
  const Transform transform(data, augment, kSide, 3, true);
  const Image before = image;
  for (std::uint64_t sample = 0; sample < 20; ++sample) {
    const SampleKey key{4, 1, sample};
    EXPECT_EQ(run(transform, image, key, workspace), by_hand(image, false, augment, true, key));
    EXPECT_EQ(image.pixels, before.pixels);
  }
  // Larger images, and images that get a border, are prepared in the same way.
  for (const auto& [width, height] : {std::pair{40, 31}, std::pair{90, 20}}) {
    const Image other = procedural_image(8, width, height);
    const Transform plain(data, {}, kSide, 3, true);
    const Image prepared = *plain.prepare(other, {}, workspace).image;
    const SampleKey key{4, 1, 7};
    EXPECT_EQ(run(transform, other, key, workspace), by_hand(prepared, false, augment, true, key));
  }
}

TEST(Augment, EvaluationIsNotAugmented) {
  const Image image = procedural_image(5, 60, 50);
  TransformWorkspace workspace;
  const auto plain = run(Transform({}, {}, kSide, 3, false), image, {}, workspace);
  for (AugmentPreset preset : {AugmentPreset::kDeit, AugmentPreset::kDeit3}) {
    const Transform transform({}, augment_preset(preset), kSide, 3, false);
    for (std::uint64_t sample = 0; sample < 10; ++sample) {
      EXPECT_EQ(run(transform, image, {1, 1, sample}, workspace), plain);
    }
  }
}

// A flip without later operations is left to normalization, where it costs nothing.
TEST(Augment, FlipsPixelsOnlyBeforeOtherOperations) {
  const Image image = procedural_image(5, 60, 50);
  TransformWorkspace workspace;
  AugmentConfig augment = with(AugmentPreset::kLight, kRand, 0);
  augment.hflip = 1;
  const Transform transform({}, augment, kSide, 3, true);
  const AutoAugment policy(kRand);
  int drawn = 0;
  for (std::uint64_t sample = 0; sample < 60; ++sample) {
    const SampleKey key{1, 1, sample};
    const bool follows = policy.draw(key).count > 0;
    EXPECT_EQ(transform.prepare(image, key, workspace).flip, !follows);
    drawn += follows;
  }
  EXPECT_GT(drawn, 30);
  EXPECT_LT(drawn, 60);
  const Transform light({}, with(AugmentPreset::kLight, "none", 0), kSide, 3, true);
  int flips = 0;
  for (std::uint64_t s = 0; s < 60; ++s) flips += light.prepare(image, {1, 1, s}, workspace).flip;
  EXPECT_GT(flips, 15);
}

// A device that flips and normalizes gets pixels that give the same images.
TEST(Augment, RawPixelsGiveSameImages) {
  DataConfig data;
  data.dataset = "synthetic";
  data.size = 40;
  ModelConfig model;
  model.image_size = kSide;
  model.num_classes = 5;
  const std::shared_ptr<const Dataset> set = open_dataset(data, model, Split::kTrain, 1);
  const Transform transform(data, with(AugmentPreset::kLight, kRand, 0), kSide, 3, true);
  LoaderOptions options;
  options.batch_size = 20;
  options.copies = 3;
  options.drop_last = options.shuffle = true;
  Loader images(test::samples(set, transform), options);
  options.workers = 2;
  Loader pixels(test::samples(set, transform, true), options);
  images.start(0);
  pixels.start(0);
  Batch made, raw;
  int batches = 0, flips = 0;
  while (images.next(made) && pixels.next(raw)) {
    ++batches;
    EXPECT_EQ(made.indices, raw.indices);
    const std::span<const float> table = transform.table();
    constexpr int plane = kSide * kSide;
    for (std::int64_t i = 0; i < raw.n; ++i) {
      const std::uint8_t* from = raw.fields.at("pixels").data<std::uint8_t>() + i * 3 * plane;
      const float* to = made.fields.at("image").data<float>() + i * 3 * plane;
      const bool flip = raw.fields.at("flip").data<std::uint8_t>()[i];
      flips += flip;
      for (int at = 0; at < 3 * plane; ++at) {
        const int y = at / 3 / kSide, x = at / 3 % kSide, c = at % 3;
        ASSERT_EQ(to[c * plane + y * kSide + (flip ? kSide - 1 - x : x)],
                  table[static_cast<std::size_t>(c * 256 + from[at])]);
      }
    }
  }
  EXPECT_EQ(batches, 2);
  EXPECT_GT(flips, 0);  // flips without any other operation
}

TEST(Augment, ReusesBuffers) {
  const Image image = procedural_image(5, 60, 50);
  for (const char* policy : {kRand, "three"}) {
    const Transform transform({}, with(AugmentPreset::kLight, policy, 0.3), kSide, 3, true);
    TransformWorkspace workspace;
    std::set<const std::uint8_t*> buffers;
    for (std::uint64_t sample = 0; sample < 300; ++sample) {
      const PreparedImage prepared = transform.prepare(image, {1, 1, sample}, workspace);
      if (sample >= 100) buffers.insert(prepared.image->pixels.data());
    }
    EXPECT_LE(buffers.size(), 2u) << policy;  // one, and the one swapped with it
  }
}

TEST(Augment, MeasuresTimePerStage) {
  const Image image = procedural_image(5, 300, 200);
  const auto bytes = golden::image_bytes("420.jpg");
  StageSeconds stages;
  TransformWorkspace workspace;
  workspace.stages = &stages;
  const Transform transform({}, augment_preset(AugmentPreset::kDeit3), kSide, 3, true);
  transform.prepare(image, {}, workspace);
  EXPECT_EQ(stages.decode, 0);
  EXPECT_GT(stages.resize, 0);
  EXPECT_GT(stages.augment, 0);
  transform.decode_and_prepare(bytes, "420.jpg", {}, workspace);
  EXPECT_GT(stages.decode, 0);
}

TEST(Augment, RejectsInvalidPolicies) {
  for (const char* policy : {"rand-m11", "rand-q3", "four", ""}) {
    EXPECT_THROW(Transform({}, with(AugmentPreset::kLight, policy, 0), kSide, 3, true), ConfigError)
        << policy;
  }
}

// Fills every second sample with black, or with the given gray.
class Blackout final : public Augmentation {
 public:
  explicit Blackout(std::uint8_t value) : value_(value) {}
  void apply(Image& image, const SampleKey&, ImageOpsWorkspace&) const override {
    std::ranges::fill(image.pixels, value_);
  }
  bool concerns(const SampleKey& key) const override { return key.sample % 2 == 0; }

 private:
  std::uint8_t value_;
};

TEST(Augment, ProgramsCanAddPolicies) {
  DataRegistries mine;
  mine.augmentations.add({{"blackout", "no image at all",
                           [](const std::string& policy) -> std::optional<std::string> {
                             if (policy == "blackout" || policy == "blackout-gray") return {};
                             return cat("`", policy, "` is unknown");
                           }},
                          [](const std::string& policy, const AugmentationSetup& setup) {
                            EXPECT_EQ(setup.mean.size(), 3u);
                            return std::make_unique<Blackout>(policy == "blackout" ? 0 : 128);
                          }});
  const Image image = procedural_image(3, kSide, kSide);
  TransformWorkspace workspace;
  for (const auto& [policy, value] : {std::pair{"blackout", 0}, {"blackout-gray", 128}}) {
    AugmentConfig augment = with(AugmentPreset::kNone, policy, 0);
    DataConfig data;
    data.crop_pct = 1;  // the unchanged image
    const Transform transform(data, augment, kSide, 3, true, {}, mine);
    const PreparedImage black = transform.prepare(image, {1, 0, 4}, workspace);
    EXPECT_EQ(std::ranges::count(black.image->pixels, value), 3 * kSide * kSide);
    EXPECT_EQ(transform.prepare(image, {1, 0, 5}, workspace).image, &image) << "not even copied";
    EXPECT_THROW(Transform({}, augment, kSide, 3, true), ConfigError) << "ours know nothing of it";
    EXPECT_NO_THROW(Transform({}, augment, kSide, 3, false)) << "an evaluation has no policy";
  }
}

// RandAugment replaces color jitter. A policy whose name only starts like `rand` does not.
TEST(Augment, OtherPoliciesThanRandAugmentKeepColorJitter) {
  DataRegistries mine;
  mine.augmentations.add({{"random", "nothing", {}},
                          [](const std::string&, const AugmentationSetup&) { return nullptr; }});
  const Image image = procedural_image(3, kSide, kSide);
  TransformWorkspace workspace;
  DataConfig data;
  data.crop_pct = 1;  // the unchanged image
  const auto changes = [&](const std::string& policy) {
    const Transform t(data, with(AugmentPreset::kNone, policy, 0.4), kSide, 3, true, {}, mine);
    return t.prepare(image, {1, 0, 4}, workspace).image->pixels != image.pixels;
  };
  EXPECT_TRUE(changes("none"));
  EXPECT_TRUE(changes("random"));
}

// The config loader's check of policy names.
TEST(Augment, PolicySchemasCheckNames) {
  const std::vector<PolicySchema> schemas = augmentation_registry().schemas();
  const auto rand = std::ranges::find(schemas, "rand", &PolicySchema::name);
  ASSERT_NE(rand, schemas.end());
  EXPECT_EQ(rand->check(kRand), std::nullopt);
  EXPECT_NE(rand->check("rand-m99").value_or("").find("rand-m9-mstd0.5-inc1"), std::string::npos);
  for (const PolicySchema& schema : schemas) EXPECT_FALSE(schema.doc.empty()) << schema.name;
}

}  // namespace
}  // namespace dtn
