#include "data/sample/transforms.h"

#include <gtest/gtest.h>

#include <cmath>
#include <optional>

#include "dtn/core/check.h"
#include "golden/data/fixtures.h"
#include "transform_runs.h"

namespace dtn {
namespace {

using golden::procedural_image;

std::vector<float> run(const Transform& transform, const Image& image, const SampleKey& key = {}) {
  TransformWorkspace workspace;
  std::vector<float> out(static_cast<std::size_t>(transform.output_size()));
  test::apply(transform, image, key, workspace, out.data());
  return out;
}

AugmentConfig light() {
  AugmentConfig augment;
  augment.preset = AugmentPreset::kLight;
  return augment;
}

const std::pair<Resample, std::string> kOrders[] = {{Resample::kPillow12, "pillow12.txt"},
                                                    {Resample::kPillow13, "pillow13.txt"}};

void expect_evaluation(Resample order, const std::string& file) {
  auto table = golden::open_table(file);
  std::uint32_t seed, expected;
  int width, height, image_size, cases = 0;
  std::string filter;
  DataConfig data;
  data.resample = order;
  while (table >> seed >> width >> height >> image_size >> data.crop_pct >> filter >> expected) {
    data.interpolation = golden::filter_named(filter);
    const Image image = procedural_image(seed, width, height);
    const Transform eval(data, {}, image_size, 3, false);
    EXPECT_EQ(golden::crc(run(eval, image)), expected) << "case " << seed;
    // Training without augmentation prepares images as evaluation does.
    EXPECT_EQ(golden::crc(run(Transform(data, {}, image_size, 3, true), image)), expected);
    EXPECT_EQ(golden::crc(run(Transform(data, light(), image_size, 3, false), image)), expected);
    ++cases;
  }
  EXPECT_EQ(cases, 80);
}

TEST(Transforms, EvaluationEqualsTorchvisionBitForBit) {
  for (const auto& [order, name] : kOrders) expect_evaluation(order, "eval_" + name);
}

// The side with the larger scale becomes int(side / crop_pct); the other side follows and is
// cropped. Half pixels round to even.
TEST(Transforms, EvaluationScalesRectanglesByLargerSide) {
  const EvalGeometry wide = eval_geometry(500, 375, {96, 192}, 0.875);
  EXPECT_EQ(wide.width, 219);   // 192 / 0.875 = 219.4
  EXPECT_EQ(wide.height, 164);  // 219 x 375 / 500 = 164.25
  EXPECT_EQ(wide.left, 14);     // (219 - 192) / 2 = 13.5
  EXPECT_EQ(wide.top, 34);
  EXPECT_EQ(wide.crop_width, 192);
  EXPECT_EQ(wide.crop_height, 96);
  const EvalGeometry high = eval_geometry(500, 100, {96, 192}, 0.875);
  EXPECT_EQ(high.height, 109);  // 96 / 0.875 = 109.7
  EXPECT_EQ(high.width, 545);
  EXPECT_EQ(high.left, 176);  // (545 - 192) / 2 = 176.5
  EXPECT_EQ(high.top, 6);     // 6.5
}

TEST(Transforms, WriteImagesOfRequestedSize) {
  const Image image = procedural_image(5, 90, 70);
  for (bool training : {false, true}) {
    const Transform transform({}, light(), {24, 40}, 3, training);
    ASSERT_EQ(transform.output_size(), 3 * 24 * 40);
    TransformWorkspace workspace;
    const PreparedImage prepared = transform.prepare(image, {1, 0, 0}, workspace);
    EXPECT_EQ(prepared.image->height, 24);
    EXPECT_EQ(prepared.image->width, 40);
  }
}

void expect_resized_crop(Resample order, const std::string& file) {
  auto table = golden::open_table(file);
  std::uint32_t seed, expected;
  int width, height, image_size, cases = 0;
  CropBox box;
  std::string filter;
  ResampleWorkspace workspace;
  while (table >> seed >> width >> height >> box.left >> box.top >> box.width >> box.height >>
         box.flip >> image_size >> filter >> expected) {
    const Image image = procedural_image(seed, width, height);
    Image crop;
    resize(crop_view(view(image), box.left, box.top, box.width, box.height), image_size, image_size,
           {golden::filter_named(filter), order}, workspace, crop);
    std::vector<float> out(static_cast<std::size_t>(3 * image_size * image_size));
    test::normalize_to_chw(crop, resolve_normalization({}, 3), box.flip, out.data());
    EXPECT_EQ(golden::crc(out), expected) << "case " << seed;
    ++cases;
  }
  EXPECT_EQ(cases, 60);
}

TEST(Transforms, ResizedCropEqualsTorchvisionBitForBit) {
  for (const auto& [order, name] : kOrders) expect_resized_crop(order, "light_" + name);
}

TEST(Transforms, ResizesWithConfiguredResample) {
  const Image image = procedural_image(0, 40, 90);
  DataConfig data;
  const auto inputs = [&](Resample order, const AugmentConfig& augment) {
    data.resample = order;
    std::vector<float> all;
    for (std::uint64_t sample = 0; sample < 20; ++sample) {
      const std::vector<float> one =
          run(Transform(data, augment, 24, 3, true), image, {1, 2, sample});
      all.insert(all.end(), one.begin(), one.end());
    }
    return all;
  };
  for (const AugmentConfig& augment : {AugmentConfig{}, light()})
    EXPECT_NE(inputs(Resample::kPillow12, augment), inputs(Resample::kPillow13, augment));
}

TEST(Transforms, LightAppliesSampledCrop) {
  const Image image = procedural_image(5, 97, 71);
  const Transform transform({}, light(), 24, 3, true);
  int flips = 0;
  for (std::uint64_t sample = 0; sample < 40; ++sample) {
    const SampleKey key{11, 3, sample};
    const CropBox box = sample_crop(97, 71, light(), key);
    ResampleWorkspace workspace;
    Image crop;
    resize(crop_view(view(image), box.left, box.top, box.width, box.height), 24, 24,
           Interpolation::kBicubic, workspace, crop);
    std::vector<float> expected(3 * 24 * 24);
    test::normalize_to_chw(crop, resolve_normalization({}, 3), box.flip, expected.data());
    EXPECT_EQ(run(transform, image, key), expected);
    flips += box.flip;
  }
  EXPECT_GT(flips, 5);
  EXPECT_LT(flips, 35);
}

// The key of a crop selects one of two filters, with equal probability. Evaluation and the crop
// boxes do not depend on it.
TEST(Transforms, TrainingUsesTrainInterpolation) {
  const Image image = procedural_image(5, 97, 71);
  const auto of = [&](std::optional<TrainInterpolation> how, bool training) {
    DataConfig data;
    data.train_interpolation = how;
    return Transform(data, light(), 24, 3, training);
  };
  const Transform bilinear = of(TrainInterpolation::kBilinear, true);
  const Transform bicubic = of(TrainInterpolation::kBicubic, true), usual = of({}, true);
  const Transform random = of(TrainInterpolation::kRandom, true);
  int by_bilinear = 0;
  constexpr int kSamples = 200;
  for (std::uint64_t sample = 0; sample < kSamples; ++sample) {
    const SampleKey key{11, 3, sample};
    const std::vector<float> linear = run(bilinear, image, key), cubic = run(bicubic, image, key);
    EXPECT_NE(linear, cubic);
    EXPECT_EQ(run(usual, image, key), cubic);
    const std::vector<float> drawn = run(random, image, key);
    EXPECT_TRUE(drawn == linear || drawn == cubic);
    by_bilinear += drawn == linear;
  }
  EXPECT_NEAR(by_bilinear, kSamples / 2, 30) << "four deviations";
  EXPECT_EQ(run(of(TrainInterpolation::kRandom, false), image), run(of({}, false), image));
  // The bytes of a file give the same result as the decoded image.
  TransformWorkspace workspace;
  const auto bytes = golden::image_bytes("rgb8.png");
  for (std::uint64_t sample = 0; sample < 12; ++sample) {
    const SampleKey key{1, 2, sample};
    std::vector<float> out(static_cast<std::size_t>(random.output_size()));
    test::decode_and_apply(random, bytes, "rgb8.png", key, workspace, out.data());
    EXPECT_EQ(out, run(random, decode_image(bytes, "rgb8.png"), key));
  }
}

TEST(Transforms, EncodedAndDecodedImagesGiveSameResult) {
  TransformWorkspace workspace;
  DataConfig data;
  data.decode = DecodeMode::kExact;
  for (const char* name : {"420.jpg", "progressive.jpg", "gray.jpg", "cmyk.jpg", "rgb8.png",
                           "palette4.png", "24bit.bmp"}) {
    const auto bytes = golden::image_bytes(name);
    for (int channels : {1, 3})
      for (bool training : {false, true})
        for (int size : {7, 40}) {
          const Transform transform(data, light(), size, channels, training);
          for (std::uint64_t sample = 0; sample < 12; ++sample) {
            const SampleKey key{1, 2, sample};
            std::vector<float> out(static_cast<std::size_t>(transform.output_size()));
            test::decode_and_apply(transform, bytes, name, key, workspace, out.data());
            EXPECT_EQ(out, run(transform, decode_image(bytes, name), key)) << name;
          }
        }
  }
}

TEST(Transforms, ExifPreparesTheUprightImage) {
  TransformWorkspace workspace;
  DataConfig data;
  data.decode = DecodeMode::kExact;
  data.exif = true;
  for (const char* name : {"rotated.jpg", "rotated.png", "lossy_rotated.webp", "420.jpg"}) {
    const auto bytes = golden::image_bytes(name);
    const Image upright = decode_image(bytes, name, {.upright = true});
    for (bool training : {false, true}) {
      const Transform transform(data, light(), 20, 3, training);
      std::vector<float> out(static_cast<std::size_t>(transform.output_size()));
      for (std::uint64_t sample = 0; sample < 12; ++sample) {
        const SampleKey key{1, 2, sample};
        test::decode_and_apply(transform, bytes, name, key, workspace, out.data());
        EXPECT_EQ(out, run(transform, upright, key)) << name;
      }
    }
    data.exif = false;
    const Transform as_stored(data, {}, 20, 3, false);
    EXPECT_EQ(run(as_stored, upright) == run(as_stored, decode_image(bytes, name)),
              std::string(name) == "420.jpg");
    data.exif = true;
  }
}

TEST(Transforms, ConvertsBetweenGrayAndColor) {
  const Image gray = procedural_image(2, 20, 20, 1);
  Image rgb, back;
  gray_to_rgb(gray, rgb);
  rgb_to_gray(rgb, back);
  EXPECT_EQ(back.pixels, gray.pixels);
  const Transform color({}, {}, 16, 3, false), mono({}, {}, 16, 1, false);
  EXPECT_EQ(run(color, gray), run(color, rgb));
  EXPECT_EQ(run(mono, gray), run(mono, rgb));
  const Image primaries{3, 1, 3, {255, 0, 0, 0, 255, 0, 0, 0, 255}};
  rgb_to_gray(primaries, back);
  EXPECT_EQ(back.pixels, (std::vector<std::uint8_t>{76, 150, 29}));
}

TEST(Transforms, EvaluationGeometry) {
  const EvalGeometry usual = eval_geometry(500, 375, 224, 0.875);
  EXPECT_EQ(usual.width, 341);
  EXPECT_EQ(usual.height, 256);
  EXPECT_EQ(usual.left, 58);  // 58.5 rounds to even
  EXPECT_EQ(usual.top, 16);
  EXPECT_EQ(eval_geometry(375, 500, 224, 0.9).width, 248);
  const EvalGeometry small = eval_geometry(10, 20, 32, 1.5);  // 21 x 42
  EXPECT_EQ(small.crop_width, 21);
  EXPECT_EQ(small.pad_left, 5);
  EXPECT_EQ(small.top, 5);
  EXPECT_EQ(small.pad_top, 0);
  EXPECT_THROW(eval_geometry(1, 65500, 16384, 1.0 / 16), DataError);
  EXPECT_EQ(eval_geometry(1, 65500, 224, 0.875).height, 256 * 65500);
}

TEST(Transforms, ElongatedImagesUseMiddleOnly) {
  TransformWorkspace workspace;
  const Image line = procedural_image(0, 1, 3000);
  const Transform transform({}, {}, 32, 3, false);
  const auto out = run(transform, line);
  for (float value : out) EXPECT_TRUE(std::isfinite(value));
}

TEST(SampleCrop, DependsOnKeyOnly) {
  const AugmentConfig augment = light();
  const CropBox box = sample_crop(500, 375, augment, {1, 2, 3});
  EXPECT_EQ(box, sample_crop(500, 375, augment, {1, 2, 3}));
  EXPECT_NE(box, sample_crop(500, 375, augment, {2, 2, 3}));
  EXPECT_NE(box, sample_crop(500, 375, augment, {1, 3, 3}));
  EXPECT_NE(box, sample_crop(500, 375, augment, {1, 2, 4}));
}

TEST(SampleCrop, FallsBackToCenterCrop) {
  AugmentConfig augment = light();
  augment.scale_min = augment.scale_max = 1;  // never fits an elongated image
  augment.hflip = 0;
  for (std::uint64_t i = 0; i < 20; ++i) {
    EXPECT_EQ(sample_crop(1000, 100, augment, {0, 0, i}), (CropBox{433, 0, 133, 100, false}));
    EXPECT_EQ(sample_crop(100, 1000, augment, {0, 0, i}), (CropBox{0, 433, 100, 133, false}));
    EXPECT_EQ(sample_crop(1, 1, augment, {0, 0, i}), (CropBox{0, 0, 1, 1, false}));
  }
}

TEST(Normalization, ComesFromConfigOrDataset) {
  DataConfig data;
  EXPECT_EQ(resolve_normalization(data, 3).mean, (std::vector<float>{0.485f, 0.456f, 0.406f}));
  data.dataset = "cifar10";
  EXPECT_EQ(resolve_normalization(data, 3).mean, (std::vector<float>{0.4914f, 0.4822f, 0.4465f}));
  data.dataset = "idx";
  EXPECT_EQ(resolve_normalization(data, 1).std, (std::vector<float>{0.3530f}));
  data.mean = {0.5};
  data.std = {0.25, 0.5, 1};
  const Normalization n = resolve_normalization(data, 3);
  EXPECT_EQ(n.mean, (std::vector<float>{0.5f, 0.5f, 0.5f}));
  EXPECT_EQ(n.std, (std::vector<float>{0.25f, 0.5f, 1}));
  EXPECT_THROW(resolve_normalization(data, 1), ConfigError);
  data.std = {0};
  EXPECT_THROW(resolve_normalization(data, 1), ConfigError);
}

TEST(Normalization, WritesPlanesAndFlips) {
  const Image image{2, 1, 3, {0, 51, 102, 153, 204, 255}};
  DataConfig data;
  data.mean = {0, 0, 0.5};
  data.std = {1, 0.5, 1};
  const Transform transform(data, {}, {1, 2}, 3, false);
  std::vector<float> out(6);
  transform.normalize({&image, false}, {}, out.data());
  EXPECT_EQ(out, (std::vector<float>{0, 153 / 255.0f, 0.4f, 1.6f, 102 / 255.0f - 0.5f, 0.5f}));
  transform.normalize({&image, true}, {}, out.data());
  EXPECT_EQ(out, (std::vector<float>{153 / 255.0f, 0, 1.6f, 0.4f, 0.5f, 102 / 255.0f - 0.5f}));
}

TEST(Transforms, RejectsBadConfigs) {
  DataConfig data;
  AugmentConfig augment;
  augment.policy = "randaugment";
  EXPECT_THROW(Transform(data, augment, 224, 3, true), ConfigError);
  EXPECT_NO_THROW(Transform(data, augment, 224, 3, false));
  data.crop_pct = 0;
  EXPECT_THROW(Transform(data, {}, 224, 3, false), ConfigError);
  data.crop_pct = 0.875;
  EXPECT_THROW(Transform(data, {}, 0, 3, false), ConfigError);
  augment = light();
  augment.scale_min = 0;
  EXPECT_THROW(Transform(data, augment, 224, 3, true), ConfigError);
  augment = light();
  augment.erase = 1.5;
  EXPECT_THROW(Transform(data, augment, 224, 3, true), ConfigError);
}

}  // namespace
}  // namespace dtn
