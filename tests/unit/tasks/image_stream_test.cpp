// Images for the features of a frozen model: in order, or as random crops for a linear classifier.
#include "tasks/frozen/image_stream.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "tensors.h"
#include "tiny_vit.h"

namespace dtn::test {
namespace {

constexpr int kSide = 64, kOutput = 96, kSlope = 3;
constexpr std::int64_t kCount = 40;
constexpr int kLow = 100, kHigh = 200;

// Pictures that show their crop: red grows with x and green with y, by 3 for each pixel. Blue is a
// checkerboard of two values, which bicubic interpolation overshoots.
class Ramps final : public Dataset {
 public:
  Ramps() {
    labels_.resize(kCount);
    for (std::size_t i = 0; i < labels_.size(); ++i) labels_[i] = static_cast<std::int32_t>(i % 3);
    description_ = "ramps";
  }
  Sample load(std::int64_t, SampleWorkspace& workspace) const override {
    Image& image = workspace.image;
    image = {kSide, kSide, 3, std::vector<std::uint8_t>(std::size_t{kSide} * kSide * 3)};
    auto pixel = image.pixels.begin();
    for (int y = 0; y < kSide; ++y) {
      for (int x = 0; x < kSide; ++x) {
        *pixel++ = static_cast<std::uint8_t>(kSlope * x);
        *pixel++ = static_cast<std::uint8_t>(kSlope * y);
        *pixel++ = static_cast<std::uint8_t>((x / 8 + y / 8) % 2 == 0 ? kLow : kHigh);
      }
    }
    return {.encoded = {}, .image = &image, .ready = {}};
  }
  std::string sample_name(std::int64_t index) const override { return cat("ramp ", index); }
};

ExperimentConfig ramp_config() {
  ExperimentConfig config;
  config.model = paper_vit();
  config.model.image_size = kOutput;
  config.model.channels = 3;
  config.seed = 5;
  config.data.mean = {0};
  config.data.std = {1};
  config.data.workers = 0;
  return config;
}

struct Epoch {
  std::vector<std::int64_t> order;
  std::vector<Tensor> images;  // [3, kOutput, kOutput], in units of a byte
};

Epoch epoch_of(ImageStream& stream, std::int64_t number) {
  Epoch epoch;
  stream.for_each(number, [&](const ImageBatch& batch) {
    for (std::size_t i = 0; i < batch.indices.size(); ++i) {
      const auto row = static_cast<std::int64_t>(i);
      EXPECT_EQ(batch.labels.data<std::int64_t>()[row], batch.indices[i] % 3);
      Tensor image = batch.fields.at("image").slice(row, row + 1).clone();
      float* values = image.data<float>();
      for (std::int64_t k = 0; k < image.numel(); ++k) values[k] *= 255;
      epoch.images.push_back(image.reshape({3, kOutput, kOutput}));
    }
    epoch.order.insert(epoch.order.end(), batch.indices.begin(), batch.indices.end());
  });
  return epoch;
}

std::unique_ptr<ImageStream> ramps(ImagePreparation preparation,
                                   const ExperimentConfig& config = ramp_config()) {
  return stream_of(std::make_shared<Ramps>(), config, preparation, {.batch = 16},
                   standard_registries());
}

std::pair<double, double> range_of(const Tensor& image, int channel) {
  const auto values = doubles(image.slice(channel, channel + 1));
  const auto [least, most] = std::ranges::minmax(values);
  return {least, most};
}

// The crop of an enlarged picture. The range of a ramp, in pixels, is the side of the crop less 1.
struct SeenCrop {
  explicit SeenCrop(const Tensor& image) : width(side(image, 0)), height(side(image, 1)) {
    const float* red = image.data<float>();
    flipped = red[0] > red[kOutput - 1];
  }
  static double side(const Tensor& image, int channel) {
    const auto [least, most] = range_of(image, channel);
    return std::round((most - least) / kSlope) + 1;
  }
  double width, height;
  bool flipped;
};

TEST(ImageStream, RandomCropsAreThoseOfDino) {
  const auto stream = ramps(ImagePreparation::kRandomCrops);
  EXPECT_FALSE(stream->is_fixed());
  EXPECT_EQ(stream->shape(), Shape({3, kOutput, kOutput}));
  double least = 1, most = 0;
  int flips = 0, count = 0;
  for (std::int64_t epoch = 0; epoch < 10; ++epoch) {
    for (const Tensor& image : epoch_of(*stream, epoch).images) {
      const SeenCrop crop(image);
      // Sides are rounded to whole pixels.
      const double half = 0.5;
      EXPECT_GE((crop.width + half) * (crop.height + half), 0.08 * kSide * kSide);
      EXPECT_GE((crop.width + half) / (crop.height - half), 3.0 / 4);
      EXPECT_LE((crop.width - half) / (crop.height + half), 4.0 / 3);
      least = std::min(least, crop.width * crop.height / (kSide * kSide));
      most = std::max(most, crop.width * crop.height / (kSide * kSide));
      flips += crop.flipped ? 1 : 0;
      ++count;
      const auto [blue_least, blue_most] = range_of(image, 2);  // bilinear: nothing overshoots
      EXPECT_GE(blue_least, kLow - 1e-3);
      EXPECT_LE(blue_most, kHigh + 1e-3);
    }
  }
  EXPECT_EQ(count, 400);
  EXPECT_LT(least, 0.12);
  EXPECT_GT(most, 0.9);
  EXPECT_NEAR(flips, 200, 50);  // 5 standard deviations
}

TEST(ImageStream, RandomCropsChangeWithEpoch) {
  const auto stream = ramps(ImagePreparation::kRandomCrops);
  const Epoch first = epoch_of(*stream, 0), second = epoch_of(*stream, 1);
  const Epoch again = epoch_of(*ramps(ImagePreparation::kRandomCrops), 0);
  EXPECT_NE(first.order, second.order);
  EXPECT_EQ(std::set(first.order.begin(), first.order.end()).size(), std::size_t{kCount});
  EXPECT_EQ(first.order, again.order);
  int equal = 0;
  for (std::size_t i = 0; i < first.images.size(); ++i) {
    EXPECT_TRUE(same_bits(first.images[i], again.images[i])) << i;
    const auto at = std::ranges::find(second.order, first.order[i]) - second.order.begin();
    equal += same_bits(first.images[i], second.images[static_cast<std::size_t>(at)]) ? 1 : 0;
  }
  EXPECT_EQ(equal, 0);
}

TEST(ImageStream, RandomCropsKeepOrderWithoutShuffle) {
  ExperimentConfig config = ramp_config();
  config.data.shuffle = false;
  const Epoch epoch = epoch_of(*ramps(ImagePreparation::kRandomCrops, config), 3);
  EXPECT_TRUE(std::ranges::is_sorted(epoch.order));
}

TEST(ImageStream, EvaluationIsTheSameInEachEpoch) {
  const auto stream = ramps(ImagePreparation::kEvaluation);
  EXPECT_TRUE(stream->is_fixed());
  const Epoch first = epoch_of(*stream, 0), second = epoch_of(*stream, 1);
  EXPECT_TRUE(std::ranges::is_sorted(first.order));
  EXPECT_EQ(first.order.size(), std::size_t{kCount});
  EXPECT_EQ(first.order, second.order);
  EXPECT_TRUE(same_bits(first.images.front(), second.images.back()));
  EXPECT_FALSE(SeenCrop(first.images.front()).flipped);
  EXPECT_GT(range_of(first.images.front(), 2).second, kHigh + 1) << "bicubic";
}

}  // namespace
}  // namespace dtn::test
