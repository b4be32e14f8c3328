// PSNR and SSIM against scikit-image 0.26, and their edges.
#include "tasks/translate/quality.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace dtn {
namespace {

// Values in [0, 1) that any program makes alike.
std::vector<float> noise(std::int64_t count, std::uint32_t state) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    values.push_back(static_cast<float>(state >> 8) / static_cast<float>(1 << 24));
  }
  return values;
}

enum class Kind { kNoise, kBeyond, kBright };

struct Case {
  PictureShape shape;
  Kind kind;
  double psnr, ssim;
};

// skimage.metrics: peak_signal_noise_ratio, and structural_similarity with gaussian_weights, sigma
// 1.5 and without use_sample_covariance; values clamped to [0, 1] beforehand.
const Case kCases[] = {
    {{3, 32, 32}, Kind::kNoise, 13.730176213024183, 0.6538239761226635},
    {{1, 28, 28}, Kind::kNoise, 13.658791937503889, 0.6337105209825125},
    {{2, 11, 17}, Kind::kNoise, 13.955229435248391, 0.7048976588823999},
    {{3, 20, 13}, Kind::kBeyond, 11.94352597230605, 0.6159368139539065},
    {{1, 24, 24}, Kind::kBright, 46.6315857620064, 0.9949756246437109},
};

TEST(PictureQuality, EqualsScikitImage) {
  for (const Case& c : kCases) {
    std::vector<float> a = noise(c.shape.values(), 1), b = noise(c.shape.values(), 2);
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (c.kind == Kind::kBright) a[i] = 0.953125f + 0.00390625f * a[i];
      b[i] = c.kind == Kind::kBright ? a[i] + 0.0078125f * b[i] : 0.5f * a[i] + 0.5f * b[i];
      if (c.kind == Kind::kBeyond) b[i] = 2 * b[i] - 0.5f;
    }
    EXPECT_NEAR(psnr(b, a), c.psnr, 1e-10);
    ASSERT_TRUE(ssim(b, a, c.shape));
    EXPECT_NEAR(*ssim(b, a, c.shape), c.ssim, 1e-10);
  }
}

TEST(PictureQuality, OfEqualPictures) {
  const PictureShape shape{3, 16, 12};
  const std::vector<float> picture = noise(shape.values(), 5);
  EXPECT_EQ(psnr(picture, picture), 100);
  EXPECT_NEAR(*ssim(picture, picture, shape), 1, 1e-15);
  std::vector<float> beyond = picture;
  beyond[0] = 7;
  std::vector<float> one = picture;
  one[0] = 1;
  EXPECT_EQ(psnr(beyond, one), 100) << "values are clamped";
}

TEST(PictureQuality, HasNoSsimWithoutWindow) {
  const std::vector<float> picture = noise(10 * 30, 5);
  EXPECT_FALSE(ssim(picture, picture, {1, 10, 30}));
  EXPECT_FALSE(ssim(picture, picture, {1, 30, 10}));
  EXPECT_TRUE(ssim(picture, picture, {1, 15, 20}));
}

TEST(PictureQuality, IsNotANumberForPicturesThatAreNone) {
  std::vector<float> picture = noise(16 * 16, 5), bad = picture;
  bad[40] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(psnr(bad, picture)));
  EXPECT_TRUE(std::isnan(*ssim(bad, picture, {1, 16, 16})));
}

}  // namespace
}  // namespace dtn
