// data.decode: the permitted effects of `fast`.
#define STB_IMAGE_WRITE_STATIC
#define STB_IMAGE_WRITE_IMPLEMENTATION
#include <gtest/gtest.h>
#include <stb/stb_image_write.h>

#include <algorithm>
#include <cmath>

#include "data/sample/transforms.h"
#include "data_fixtures.h"
#include "golden/data/fixtures.h"

namespace dtn {
namespace {

using namespace dtn::test;

// An image like a photograph: shading, objects with sharp edges, a little texture.
Image photograph(int width, int height, std::uint32_t seed) {
  Image image{width, height, 3, noise(static_cast<std::size_t>(3 * width * height), seed)};
  const Bytes draws = noise(6 * 40, seed + 1);
  struct Disc {
    int x, y, radius;
    const std::uint8_t* color;
  };
  std::vector<Disc> discs;
  for (std::size_t i = 0; i < 40; ++i) {
    const std::uint8_t* d = &draws[6 * i];
    discs.push_back({d[0] * width / 255, d[1] * height / 255, 4 + d[2] * height / 900, d + 3});
  }
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x) {
      const std::uint8_t* top = nullptr;
      for (const Disc& d : discs)
        if ((x - d.x) * (x - d.x) + (y - d.y) * (y - d.y) < d.radius * d.radius) top = d.color;
      for (int c = 0; c < 3; ++c) {
        std::uint8_t& pixel = image.pixels[static_cast<std::size_t>((y * width + x) * 3 + c)];
        const double shade = 128 + 70 * std::sin(x * 0.011 * (c + 1)) * std::cos(y * 0.017);
        const double base = top ? 0.7 * top[c] + 0.3 * shade : shade;
        pixel = static_cast<std::uint8_t>(std::clamp(base + pixel % 16 - 8.0, 0.0, 255.0));
      }
    }
  return image;
}

// A JPEG file: 4:2:0 up to quality 90, 4:4:4 above.
std::vector<std::byte> jpeg_of(const Image& image, int quality) {
  std::vector<std::byte> out;
  const auto add = [](void* to, void* data, int size) {
    const auto* from = static_cast<const std::byte*>(data);
    auto& file = *static_cast<std::vector<std::byte>*>(to);
    file.insert(file.end(), from, from + size);
  };
  stbi_write_jpg_to_func(add, &out, image.width, image.height, image.channels, image.pixels.data(),
                         quality);
  return out;
}

DataConfig decoding(DecodeMode mode) {
  DataConfig data;
  data.decode = mode;
  return data;
}

AugmentConfig light() {
  AugmentConfig augment;
  augment.preset = AugmentPreset::kLight;
  return augment;
}

Image prepared(const Transform& transform, const std::vector<std::byte>& file,
               const SampleKey& key = {}) {
  TransformWorkspace workspace;
  return *transform.decode_and_prepare(file, "a file", key, workspace).image;
}

struct Distance {
  double mean = 0, psnr = 0;  // of 255; decibel
};
Distance distance(const Image& a, const Image& b) {
  EXPECT_EQ(a.pixels.size(), b.pixels.size());
  double sum = 0, squares = 0;
  for (std::size_t i = 0; i < a.pixels.size(); ++i) {
    const double d = std::abs(a.pixels[i] - b.pixels[i]);
    sum += d;
    squares += d * d;
  }
  const auto n = static_cast<double>(a.pixels.size());
  return {sum / n, 10 * std::log10(255 * 255 / (squares / n))};
}

TEST(Decode, FastStaysWithinToleranceOfExact) {
  for (int quality : {75, 95}) {
    const auto file = jpeg_of(photograph(701, 603, static_cast<std::uint32_t>(quality)), quality);
    for (int size : {32, 64, 112}) {
      const Transform exact(decoding(DecodeMode::kExact), light(), size, 3, true);
      const Transform fast(decoding(DecodeMode::kFast), light(), size, 3, true);
      int scaled = 0;
      Distance sum;
      for (std::uint64_t sample = 0; sample < 30; ++sample) {
        const SampleKey key{3, 1, sample};
        const CropBox box = sample_crop(701, 603, light(), key);
        const Image wanted = prepared(exact, file, key), got = prepared(fast, file, key);
        if (std::min(box.width, box.height) < 3 * size) {
          ASSERT_EQ(got.pixels, wanted.pixels) << "crop of " << box.width << " x " << box.height;
          continue;
        }
        const Distance d = distance(got, wanted);
        EXPECT_LT(d.mean, 2) << "crop of " << box.width << " x " << box.height;
        ++scaled;
        sum.mean += d.mean;
        sum.psnr += d.psnr;
      }
      ASSERT_GT(scaled, 5);
      EXPECT_LT(sum.mean / scaled, 1) << "size " << size << ", quality " << quality;
      EXPECT_GT(sum.psnr / scaled, 44) << "size " << size << ", quality " << quality;
      EXPECT_LT(sum.psnr / scaled, 70) << "nothing was decoded at a smaller scale";
    }
  }
}

// A crop that starts within a pixel of the smaller image must not shift: a ramp keeps its values.
TEST(Decode, FastKeepsGeometry) {
  Image ramp{1024, 768, 3, {}};
  for (int y = 0; y < 768; ++y)
    for (int x = 0; x < 1024; ++x)
      for (int c = 0; c < 3; ++c)
        ramp.pixels.push_back(static_cast<std::uint8_t>(c == 0   ? x / 4
                                                        : c == 1 ? y / 4
                                                                 : (x + y) / 8));
  const auto file = jpeg_of(ramp, 100);
  for (int size : {16, 48}) {
    double worst = 0;
    const Transform exact(decoding(DecodeMode::kExact), light(), size, 3, true);
    const Transform fast(decoding(DecodeMode::kFast), light(), size, 3, true);
    for (std::uint64_t sample = 0; sample < 40; ++sample) {
      const SampleKey key{5, 1, sample};
      const Image a = prepared(exact, file, key), b = prepared(fast, file, key);
      double drift = 0;
      for (std::size_t i = 0; i < a.pixels.size(); ++i) drift += b.pixels[i] - a.pixels[i];
      // One pixel of the file changes the value by a quarter; rounding alone causes up to 0.16.
      worst = std::max(worst, std::fabs(drift) / static_cast<double>(a.pixels.size()));
    }
    EXPECT_LT(worst, 0.3) << "size " << size;
  }
}

TEST(Decode, FastEvaluationIsCloseToExact) {
  for (int width : {640, 333}) {
    const auto file = jpeg_of(photograph(width, 501, 7), 90);
    for (int size : {24, 56, 100}) {
      const Transform exact(decoding(DecodeMode::kExact), {}, size, 3, false);
      const Transform fast(decoding(DecodeMode::kFast), {}, size, 3, false);
      const Image wanted = prepared(exact, file), got = prepared(fast, file);
      if (size < 100) {
        EXPECT_NE(got.pixels, wanted.pixels);
        EXPECT_LT(distance(got, wanted).mean, 1) << width << " to " << size;
      } else if (width == 333) {
        EXPECT_EQ(got.pixels, wanted.pixels);
      }
    }
  }
}

TEST(Decode, AutoIsFastInTrainingOnly) {
  const auto file = jpeg_of(photograph(320, 256, 3), 90);
  AugmentConfig whole = light();
  whole.scale_min = 1;
  for (const AugmentConfig& augment : {whole, AugmentConfig{}})
    for (bool training : {false, true}) {
      const auto with = [&](DecodeMode mode) {
        return prepared(Transform(decoding(mode), augment, 32, 3, training), file).pixels;
      };
      EXPECT_NE(with(DecodeMode::kFast), with(DecodeMode::kExact));
      EXPECT_EQ(with(DecodeMode::kAuto), with(training ? DecodeMode::kFast : DecodeMode::kExact));
    }
}

TEST(Decode, FastChangesOnlyJpeg) {
  for (const char* name : {"rgb8.png", "png_inside.jpg", "24bit.bmp"}) {
    const auto file = golden::image_bytes(name);
    for (bool training : {false, true}) {
      const Transform exact(decoding(DecodeMode::kExact), light(), 1, 3, training);
      const Transform fast(decoding(DecodeMode::kFast), light(), 1, 3, training);
      for (std::uint64_t sample = 0; sample < 5; ++sample)
        EXPECT_EQ(prepared(fast, file, {1, 1, sample}).pixels,
                  prepared(exact, file, {1, 1, sample}).pixels);
    }
  }
}

// Every kind of JPEG at every scale that a transform may choose, in color and gray.
TEST(Decode, FastDecodesEveryKindOfJpeg) {
  for (const char* name :
       {"gray.jpg", "444.jpg", "422.jpg", "440.jpg", "411.jpg", "420.jpg", "progressive.jpg",
        "cmyk.jpg", "cmyk_unmarked.jpg", "ycck_progressive.jpg", "rgb.jpg", "restart.jpg",
        "arithmetic.jpg", "420_tiny.jpg"}) {
    const auto file = golden::image_bytes(name);
    for (int channels : {1, 3})
      for (int size : {1, 2, 5, 9})
        for (bool training : {false, true}) {
          const Transform fast(decoding(DecodeMode::kFast), light(), size, channels, training);
          for (std::uint64_t sample = 0; sample < 6; ++sample) {
            const Image image = prepared(fast, file, {1, 1, sample});
            EXPECT_EQ(image.width, size) << name;
            EXPECT_EQ(image.height, size) << name;
            EXPECT_EQ(image.channels, channels) << name;
          }
        }
  }
}

}  // namespace
}  // namespace dtn
