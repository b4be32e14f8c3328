// Pixels of the corruptions: known results of the original arithmetic (numpy, scipy, scikit-image,
// OpenCV, Pillow and ImageMagick), and statistics of random corruptions.
#include "data/corrupt/corruptions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <numeric>

#include "data/corrupt/filters.h"
#include "data/sample/instruction_set.h"
#include "io/image/image_encode.h"
#include "unit/data/data_fixtures.h"

namespace dtn {
namespace {

using namespace dtn::test;

// R = 3 y + x, G = y + 2 x, B = y x / 8, each modulo 256.
Image test_image(int width = 224, int height = 224) {
  Image image{width, height, 3, Bytes(static_cast<std::size_t>(width) * height * 3)};
  std::uint8_t* p = image.pixels.data();
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (int v : {3 * y + x, y + 2 * x, y * x / 8}) *p++ = static_cast<std::uint8_t>(v);
    }
  }
  return image;
}

std::uint32_t crc_of(const Bytes& bytes) {
  return static_cast<std::uint32_t>(crc32_z(0, bytes.data(), bytes.size()));
}

Image corrupted(const Image& image, const char* name, int severity, const std::string& item = "i",
                std::uint64_t seed = 0, const FrostTextures* frost = nullptr) {
  CorruptScratch scratch;
  Image out;
  apply_corruption(image, {find_corruption(name), severity}, {seed, item}, frost, scratch, out);
  return out;
}

// Restores the best instruction set at the end.
struct InstructionSets {
  ~InstructionSets() { limit_instruction_set(2); }
};

double mean_of(const Image& image) {
  return std::accumulate(image.pixels.begin(), image.pixels.end(), 0.0) /
         static_cast<double>(image.pixels.size());
}

double squared_error(const Image& a, const Image& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.pixels.size(); ++i) {
    const int d = a.pixels[i] - b.pixels[i];
    sum += d * d;
  }
  return sum / static_cast<double>(a.pixels.size());
}

struct KnownAnswers {
  const char* name;
  std::uint32_t crc[5];
};
constexpr KnownAnswers kKnownAnswers[] = {
    {"brightness", {0x09b9ffa6, 0xa296528d, 0xcd34172f, 0x1a8bd330, 0x484d62b7}},
    {"contrast", {0xfc8de536, 0x2289bf6f, 0xfcba948c, 0x612c18ac, 0xac2f9817}},
    {"pixelate", {0x1ec379ee, 0x1c149f91, 0x2cbb296c, 0x1ff65082, 0xaddd7ec6}},
    {"jpeg_compression", {0xf86fc954, 0x2afc49a6, 0xbdc1d950, 0xf2d0b04c, 0x8c2ded1d}},
    {"gaussian_blur", {0x23ffded5, 0xde3c4ebd, 0xb0e81ced, 0x71e15131, 0xa22f1f71}},
    {"saturate", {0xf304a2bb, 0x6120162f, 0xba86278f, 0x63ad5d49, 0x2bb70982}},
};

TEST(CorruptedPixels, KnownChecksums) {
  const Image image = test_image();
  ASSERT_EQ(crc_of(image.pixels), 0x65a5f765u);
  const InstructionSets restore;
  for (int level = 0; level <= 2; ++level) {
    limit_instruction_set(level);
    for (const KnownAnswers& known : kKnownAnswers) {
      for (int s = 1; s <= 5; ++s) {
        EXPECT_EQ(crc_of(corrupted(image, known.name, s).pixels), known.crc[s - 1])
            << known.name << " " << s << ", instruction set " << level;
      }
    }
  }
}

TEST(CorruptedPixels, KnownMotionBlurChecksums) {
  const corrupt::Motion motions[] = {
      {10, 3, 0}, {15, 5, 30}, {15, 8, -30}, {15, 12, 45}, {20, 15, -17}};
  const std::uint32_t crcs[] = {0xdb3c1386, 0xb1948e17, 0x3a5c0db2, 0x03477713, 0xdef8bb3e};
  const Image image = test_image();
  const InstructionSets restore;
  CorruptScratch scratch;
  for (int level = 0; level <= 2; ++level) {
    limit_instruction_set(level);
    for (std::size_t i = 0; i < std::size(motions); ++i) {
      Bytes out(image.pixels.size());
      corrupt::motion_filter(image.pixels.data(), {224, 224, 3}, motions[i], scratch, out.data());
      EXPECT_EQ(crc_of(out), crcs[i]) << i << ", instruction set " << level;
    }
  }
}

TEST(CorruptedPixels, KnownFrostChecksums) {
  const TempFolder dir;
  std::vector<std::byte> png;
  encode_png({260, 240, 3, Bytes(260 * 240 * 3, 200)}, png);
  std::ofstream(dir.path() / "white.png", std::ios::binary)
      .write(reinterpret_cast<const char*>(png.data()), static_cast<std::streamsize>(png.size()));
  const auto frost = FrostTextures::from_folder(dir.string());
  EXPECT_FALSE(frost->is_stand_in());
  const std::uint32_t crcs[] = {0x29e1ab20, 0x4ea055b2, 0x089917c7, 0xcb234c9d, 0x5cfe20e9};
  const InstructionSets restore;
  for (int level = 0; level <= 2; ++level) {
    limit_instruction_set(level);
    for (int s = 1; s <= 5; ++s) {
      EXPECT_EQ(crc_of(corrupted(test_image(), "frost", s, "i", 0, frost.get()).pixels),
                crcs[s - 1]);
    }
  }
}

// The bits are equal on every instruction set, also for cases without known results.
TEST(CorruptedPixels, SameOnEveryInstructionSet) {
  const Image image = test_image();
  const auto frost = FrostTextures::stand_in();
  const InstructionSets restore;
  for (const Corruption& c : corruptions()) {
    for (int s : {1, 4}) {
      limit_instruction_set(0);
      const Image plain = corrupted(image, c.name, s, "i", 0, frost.get());
      for (int level : {1, 2}) {
        limit_instruction_set(level);
        EXPECT_EQ(corrupted(image, c.name, s, "i", 0, frost.get()).pixels, plain.pixels)
            << c.name << " " << s << ", instruction set " << level;
      }
    }
  }
}

TEST(CorruptedPixels, DefocusKernels) {
  const double sums[] = {1, 1, 1, 1.012975, 1.010786};
  const int reaches[] = {8, 8, 8, 8, 10};
  for (int s = 1; s <= 5; ++s) {
    const corrupt::DefocusKernel kernel = corrupt::defocus_kernel(s);
    const int r = kernel.reach;
    EXPECT_EQ(r, reaches[s - 1]);
    ASSERT_EQ(kernel.weights.size(), static_cast<std::size_t>((2 * r + 1) * (2 * r + 1)));
    EXPECT_NEAR(std::accumulate(kernel.weights.begin(), kernel.weights.end(), 0.0), sums[s - 1],
                1e-6);
    for (int y = 0; y <= r; ++y) {
      for (int x = 0; x <= r; ++x) {
        EXPECT_DOUBLE_EQ(kernel.at(y, x), kernel.at(-y, x));
        EXPECT_DOUBLE_EQ(kernel.at(y, x), kernel.at(x, -y));
      }
    }
  }
  EXPECT_NEAR(corrupt::defocus_kernel(1).at(0, 0), 1.0 / 29, 1e-9);  // 29 cells, hardly smoothed
}

TEST(CorruptedPixels, DefocusAndZoom) {
  struct Known {
    double mean, error;
  };
  const Known defocus[] = {
      {126.08, 906.3}, {125.89, 1186.7}, {125.95, 1747.3}, {127.74, 2108.9}, {127.51, 2289.9}};
  const Known zoom[] = {
      {127.86, 1919.4}, {128.22, 2373.5}, {128.41, 2501.3}, {128.59, 2815.1}, {128.64, 2993.6}};
  const Image image = test_image();
  for (int s = 1; s <= 5; ++s) {
    // A symmetric kernel keeps the slopes of the image, which are integers. Rounding errors decide
    // whether such a value drops by one level; it did for up to 0.6 of the values in the known
    // figures (126.36 is the mean without drops). The last two kernels brighten, so there are no
    // such values.
    const bool lucky = s <= 3;
    const Image d = corrupted(image, "defocus_blur", s), z = corrupted(image, "zoom_blur", s);
    EXPECT_NEAR(mean_of(d), defocus[s - 1].mean, lucky ? 0.5 : 0.006) << s;
    EXPECT_NEAR(squared_error(d, image), defocus[s - 1].error, lucky ? 0.6 : 0.06) << s;
    EXPECT_NEAR(mean_of(z), zoom[s - 1].mean, 0.006) << s;
    EXPECT_NEAR(squared_error(z, image), zoom[s - 1].error, 0.06) << s;
  }
}

TEST(CorruptedPixels, ZoomAxes) {
  const corrupt::ZoomAxis none = corrupt::zoom_axis(224, 1);
  EXPECT_EQ(none.count, 224);
  EXPECT_EQ(none.at[100], 100);
  EXPECT_EQ(none.share[100], 0);
  const corrupt::ZoomAxis twice = corrupt::zoom_axis(224, 2);  // 112 become 224, corners aligned
  EXPECT_EQ(twice.first, 56);
  EXPECT_EQ(twice.count, 112);
  EXPECT_NEAR(twice.at[223] + twice.share[223], 111, 1e-5);
  EXPECT_NEAR(twice.at[100] + twice.share[100], 100 * 111.0 / 223, 1e-5);
  EXPECT_EQ(corrupt::zoom_axis(224, 1.11).count, 202);
  for (double factor : {1.01, 1.3, 2.5, 4.5}) {
    const corrupt::ZoomAxis axis = corrupt::zoom_axis(224, factor);
    for (std::size_t i = 0; i < 224; ++i) {
      EXPECT_GE(axis.at[i], 0);
      EXPECT_LE(axis.at[i], axis.count - 2);
      EXPECT_GE(axis.share[i], 0);
      EXPECT_LE(axis.share[i], 1);
    }
  }
}

TEST(CorruptedPixels, Taps) {
  EXPECT_EQ(corrupt::gaussian_taps(1).size(), 9u);
  EXPECT_EQ(corrupt::gaussian_taps(.7).size(), 7u);
  EXPECT_EQ(corrupt::gaussian_taps(244 * .7, 3).size(), 1025u);
  for (double sigma : {.7, 1.5, 6.0}) {
    const std::vector<double> taps = corrupt::gaussian_taps(sigma);
    const std::size_t r = taps.size() / 2;
    EXPECT_NEAR(std::accumulate(taps.begin(), taps.end(), 0.0), 1, 1e-14);
    EXPECT_NEAR(taps[r + 1] / taps[r], std::exp(-1 / (2 * sigma * sigma)), 1e-15);
    EXPECT_EQ(taps.front(), taps.back());
  }
  EXPECT_EQ(corrupt::mirror_without_edge(-1, 5), 1);
  EXPECT_EQ(corrupt::mirror_without_edge(5, 5), 3);
  EXPECT_EQ(corrupt::mirror_without_edge(-9, 5), 1);
  EXPECT_EQ(corrupt::mirror_without_edge(7, 1), 0);
  EXPECT_EQ(corrupt::mirror_with_edge(-1, 5), 0);
  EXPECT_EQ(corrupt::mirror_with_edge(5, 5), 4);
  EXPECT_EQ(corrupt::mirror_with_edge(-11, 5), 0);
}

// Mean, squared distance to the clean image, and the deviation of that distance between draws.
struct Moments {
  double mean, error, spread;
};
struct KnownMoments {
  const char* name;
  int draws;  // number of draws for the known moments
  Moments severities[5];
};
constexpr KnownMoments kKnownMoments[] = {
    {"gaussian_noise",
     24,
     {{126.10, 380, 1},
      {126.15, 814, 3},
      {126.20, 1696, 6},
      {126.34, 3171, 12},
      {126.51, 5599, 20}}},
    {"shot_noise",
     24,
     {{125.19, 472, 2},
      {123.91, 1057, 4},
      {121.69, 2032, 7},
      {116.77, 4262, 16},
      {111.68, 6436, 24}}},
    {"impulse_noise",
     24,
     {{126.57, 656, 13},
      {126.60, 1304, 18},
      {126.61, 1956, 25},
      {126.69, 3701, 25},
      {126.80, 5871, 37}}},
    {"speckle_noise",
     24,
     {{124.88, 405, 2},
      {124.11, 691, 3},
      {120.99, 1898, 12},
      {118.61, 2897, 13},
      {115.47, 4408, 22}}},
    {"glass_blur",
     6,
     {{125.46, 1497, 4},
      {125.48, 1208, 7},
      {125.06, 2605, 26},
      {124.99, 2146, 17},
      {125.12, 2256, 20}}},
    {"snow",
     24,
     {{168.4, 2268, 47},
      {193.2, 5723, 77},
      {192.9, 5810, 219},
      {205.4, 8266, 295},
      {219.5, 11123, 164}}},
    {"spatter",
     24,
     {{127.2, 30, 16}, {130.7, 222, 28}, {133.8, 361, 30}, {117.3, 1233, 73}, {111.7, 1997, 98}}},
};

TEST(CorruptedPixels, MomentsMatchImageNetC) {
  constexpr int kDraws = 16;
  const Image image = test_image();
  for (const KnownMoments& known : kKnownMoments) {
    for (int s = 1; s <= 5; ++s) {
      const Moments& want = known.severities[s - 1];
      double mean = 0, squares = 0, error = 0;
      for (int draw = 0; draw < kDraws; ++draw) {
        const Image out = corrupted(image, known.name, s, std::to_string(draw));
        mean += mean_of(out) / kDraws;
        squares += mean_of(out) * mean_of(out) / kDraws;
        error += squared_error(out, image) / kDraws;
      }
      // Bound for the difference of two means: 4.5 of their common deviation, and half of the last
      // digit (a full digit of the spread).
      const double common = std::sqrt(1.0 / kDraws + 1.0 / known.draws);
      EXPECT_NEAR(error, want.error, 4.5 * (want.spread + .5) * common + .5)
          << known.name << " " << s;
      const double deviation =
          std::sqrt(std::max(squares - mean * mean, 0.0) * kDraws / (kDraws - 1));
      EXPECT_NEAR(mean, want.mean, 4.5 * deviation * common + .06) << known.name << " " << s;
    }
  }
}

TEST(CorruptedPixels, ImpulsesHitChannelsIndependently) {
  const Image image{224, 224, 3, Bytes(224 * 224 * 3, 100)};
  const Image out = corrupted(image, "impulse_noise", 3);
  int hits[4] = {};
  std::int64_t white = 0, black = 0;
  for (std::size_t i = 0; i < out.pixels.size(); i += 3) {
    int hit = 0;
    for (std::size_t c = 0; c < 3; ++c) {
      white += out.pixels[i + c] == 255;
      black += out.pixels[i + c] == 0;
      hit += out.pixels[i + c] != 100;
    }
    ++hits[hit];
  }
  const double n = 224 * 224, p = .09;
  const auto expect_share = [&](double count, double total, double share) {
    EXPECT_NEAR(count / total, share, 5 * std::sqrt(share * (1 - share) / total));
  };
  expect_share(static_cast<double>(white), 3 * n, p / 2);
  expect_share(static_cast<double>(black), 3 * n, p / 2);
  expect_share(hits[1], n, 3 * p * (1 - p) * (1 - p));
  expect_share(hits[3], n, p * p * p);
}

TEST(CorruptedPixels, Plasma) {
  // A known figure, and its deviation between surfaces, which is large.
  struct Figure {
    double known, spread;
  };
  struct Known {
    float decay;
    Figure deviation, step, far;
  };
  constexpr int kDraws = 200, kKnownDraws = 24;
  const Known table[] = {{2, {.14, .023}, {.0027, .0007}, {.041, .0117}},
                         {1.7f, {.16, .023}, {.0037, .0008}, {.055, .0116}},
                         {1.5f, {.18, .024}, {.0055, .0009}, {.064, .0110}},
                         {1.4f, {.18, .021}, {.0078, .0012}, {.069, .0099}}};
  for (const Known& known : table) {
    double mean = 0, deviation = 0, step = 0, far = 0;
    std::vector<std::uint32_t> words;
    std::vector<float> p;
    for (int draw = 0; draw < kDraws; ++draw) {
      Draws draws(0, "plasma", 1, std::to_string(draw));
      corrupt::draw_plasma(known.decay, draws, words, p);
      ASSERT_EQ(p.size(), 65536u);
      const auto [low, high] = std::ranges::minmax(p);
      EXPECT_EQ(low, 0);
      EXPECT_EQ(high, 1);
      double sum = 0, squares = 0;
      for (std::size_t i = 0; i < p.size(); ++i) {
        sum += p[i] / 65536.0;
        squares += static_cast<double>(p[i]) * p[i] / 65536;
        if (i % 256 + 1 < 256) step += std::fabs(p[i] - p[i + 1]) / (65280.0 * kDraws);
        if (i % 256 + 16 < 256) far += std::fabs(p[i] - p[i + 16]) / (61440.0 * kDraws);
      }
      mean += sum / kDraws;
      deviation += std::sqrt(squares - sum * sum) / kDraws;
    }
    const double common = 4.5 * std::sqrt(1.0 / kDraws + 1.0 / kKnownDraws);
    EXPECT_NEAR(mean, .5, 4.5 * .095 / std::sqrt(kDraws)) << known.decay;
    EXPECT_NEAR(deviation, known.deviation.known, common * known.deviation.spread) << known.decay;
    EXPECT_NEAR(step, known.step.known, common * known.step.spread) << known.decay;
    EXPECT_NEAR(far, known.far.known, common * known.far.spread) << known.decay;
  }
}

TEST(CorruptedPixels, StandInTexturesMatchOriginalStatistics) {
  struct Known {
    int height, width;
    double mean[3], deviation[3], step;
  };
  const Known known[] = {{600, 900, {78, 149, 166}, {27, 16, 15}, 8},
                         {315, 560, {201, 205, 214}, {21, 22, 23}, 8},
                         {315, 560, {201, 205, 214}, {21, 22, 23}, 8},
                         {350, 527, {138, 153, 165}, {28, 28, 30}, 13},
                         {495, 660, {112, 123, 135}, {44, 43, 42}, 17}};
  const auto frost = FrostTextures::stand_in();
  EXPECT_TRUE(frost->is_stand_in());
  ASSERT_EQ(frost->images().size(), 5u);
  EXPECT_EQ(frost->images()[1].pixels, frost->images()[2].pixels);
  for (std::size_t t = 0; t < 5; ++t) {
    const Image& image = frost->images()[t];
    EXPECT_EQ(image.height, known[t].height);
    EXPECT_EQ(image.width, known[t].width);
    double step = 0, product = 0;
    const double n = static_cast<double>(image.pixels.size()) / 3;
    double mean[3] = {}, deviation[3] = {};
    for (std::size_t i = 0; i < image.pixels.size(); ++i) {
      mean[i % 3] += image.pixels[i] / n;
      deviation[i % 3] += static_cast<double>(image.pixels[i]) * image.pixels[i] / n;
      const bool last = i / 3 % static_cast<std::size_t>(image.width) + 1 ==
                        static_cast<std::size_t>(image.width);
      if (!last) step += std::abs(image.pixels[i] - image.pixels[i + 3]);
      if (i % 3 == 0) product += static_cast<double>(image.pixels[i]) * image.pixels[i + 1] / n;
    }
    for (std::size_t c = 0; c < 3; ++c) {
      deviation[c] = std::sqrt(deviation[c] - mean[c] * mean[c]);
      EXPECT_NEAR(mean[c], known[t].mean[c], .5) << t;
      EXPECT_NEAR(deviation[c], known[t].deviation[c], .5) << t;
    }
    EXPECT_NEAR(step / (3.0 * image.height * (image.width - 1)), known[t].step, .2) << t;
    const double correlation = (product - mean[0] * mean[1]) / (deviation[0] * deviation[1]);
    EXPECT_NEAR(correlation, t == 0 ? .82 : 1, .03) << t;
  }
}

TEST(CorruptedPixels, FrostDrawsTexturesUniformly) {
  const TempFolder dir;
  for (int i = 0; i < 5; ++i) {
    std::vector<std::byte> png;
    encode_png({226, 225, 3, Bytes(226 * 225 * 3, static_cast<std::uint8_t>(40 * i))}, png);
    const Bytes bytes(reinterpret_cast<const std::uint8_t*>(png.data()),
                      reinterpret_cast<const std::uint8_t*>(png.data()) + png.size());
    write_bytes(dir.path() / (std::string("x") + static_cast<char>('0' + i) + ".png"), bytes);
  }
  const auto frost = FrostTextures::from_folder(dir.string());
  const Image black{224, 224, 3, Bytes(224 * 224 * 3)};
  int counts[5] = {};
  constexpr int kDraws = 500;
  for (int i = 0; i < kDraws; ++i) {
    const Image out = corrupted(black, "frost", 1, std::to_string(i), 0, frost.get());
    ++counts[(out.pixels[0] + 8) / 16];  // .4 x 40 i
  }
  for (int count : counts) EXPECT_NEAR(count, kDraws / 5, 5 * std::sqrt(kDraws * .2 * .8));
}

TEST(CorruptedPixels, RejectsBadTextures) {
  const TempFolder dir;
  expect_error<DataError>([&] { FrostTextures::from_folder(dir.string() + "/absent"); },
                          {"absent"});
  expect_error<DataError>([&] { FrostTextures::from_folder(dir.string()); },
                          {"no pictures of frost"});
  write_bytes(dir.path() / "a.bmp", bmp_file(300, 224, Bytes(300 * 224 * 3)));
  expect_error<DataError>([&] { FrostTextures::from_folder(dir.string()); },
                          {"a.bmp", "300 x 224", "225"});
  write_bytes(dir.path() / "a.bmp", {1, 2, 3});
  expect_error<DataError>([&] { FrostTextures::from_folder(dir.string()); }, {"a.bmp"});
  // If the five original pictures exist, no other file is used.
  for (const char* name : {"frost1.png", "frost2.png", "frost3.png", "frost4.jpg", "frost5.jpg"}) {
    write_bytes(dir.path() / name, bmp_file(225, 226, Bytes(225 * 226 * 3, 7)));
  }
  EXPECT_EQ(FrostTextures::from_folder(dir.string())->images().size(), 5u);
}

// The first two severities move whole regions; the others change small details, thus less.
TEST(CorruptedPixels, ElasticRegimes) {
  const Image image = test_image();
  double errors[5] = {};
  for (int s = 1; s <= 5; ++s) {
    for (int draw = 0; draw < 12; ++draw) {
      errors[s - 1] +=
          squared_error(corrupted(image, "elastic_transform", s, std::to_string(draw)), image) / 12;
    }
  }
  EXPECT_LT(errors[2], .5 * errors[1]);
  EXPECT_LT(errors[0], errors[1]);
  EXPECT_LT(errors[2], errors[4]);
  const Image plain{224, 224, 3, Bytes(224 * 224 * 3, 77)};
  for (int s = 1; s <= 5; ++s) {
    EXPECT_EQ(corrupted(plain, "elastic_transform", s).pixels, plain.pixels) << s;
  }
}

TEST(CorruptedPixels, FlatImages) {
  const Image black{224, 224, 3, Bytes(224 * 224 * 3, 0)},
      white{224, 224, 3, Bytes(224 * 224 * 3, 255)};
  for (const char* name :
       {"shot_noise", "speckle_noise", "defocus_blur", "glass_blur", "motion_blur", "zoom_blur",
        "fog", "contrast", "pixelate", "gaussian_blur", "jpeg_compression"}) {
    EXPECT_EQ(mean_of(corrupted(black, name, 5)), 0) << name;
  }
  for (const char* name : {"zoom_blur", "brightness", "snow", "pixelate", "motion_blur"}) {
    EXPECT_EQ(mean_of(corrupted(white, name, 5)), 255) << name;
  }
  // Gray has hue 0, so saturation makes it reddish.
  const Image gray{2, 1, 3, Bytes(6, 100)};
  const Bytes red = corrupted(gray, "saturate", 5).pixels;
  EXPECT_EQ(red[0], 100);
  EXPECT_LT(red[1], 85);
  EXPECT_EQ(red[1], red[2]);
}

TEST(CorruptedPixels, DrawsDependOnKeyOnly) {
  const Image image = test_image();
  const auto frost = FrostTextures::stand_in();
  CorruptScratch used;
  Image out;
  for (const Corruption& c : corruptions()) {  // used scratch memory changes nothing
    for (int s = 1; s <= 5; ++s) {
      apply_corruption(image, {&c, s}, {7, "a/b.JPEG"}, frost.get(), used, out);
      EXPECT_EQ(out.pixels, corrupted(image, c.name, s, "a/b.JPEG", 7, frost.get()).pixels)
          << c.name;
    }
  }
  for (const char* name :
       {"gaussian_noise", "shot_noise", "impulse_noise", "glass_blur", "motion_blur", "snow",
        "frost", "fog", "elastic_transform", "speckle_noise", "spatter"}) {
    const Bytes one = corrupted(image, name, 2, "a/b.JPEG", 7, frost.get()).pixels;
    EXPECT_NE(one, corrupted(image, name, 2, "a/c.JPEG", 7, frost.get()).pixels) << name;
    EXPECT_NE(one, corrupted(image, name, 2, "a/b.JPEG", 8, frost.get()).pixels) << name;
  }
  // The noise of two severities is uncorrelated.
  const Image gray{224, 224, 3, Bytes(224 * 224 * 3, 128)};
  const Bytes a = corrupted(gray, "gaussian_noise", 1).pixels,
              b = corrupted(gray, "gaussian_noise", 2).pixels;
  double product = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    product += (a[i] - 128.0) * (b[i] - 128.0) / (255 * 255 * .08 * .12);
  EXPECT_LT(std::fabs(product / static_cast<double>(a.size())), 5 / std::sqrt(224.0 * 224 * 3));
}

TEST(CorruptedPixels, SupportedImageSizes) {
  for (const Corruption& c : corruptions()) {
    for (auto [width, height] : {std::pair{32, 32}, {1, 1}, {5, 3}, {224, 100}, {300, 224}}) {
      const Image image = test_image(width, height);
      if (c.any_size) {
        const Image out = corrupted(image, c.name, 5);
        EXPECT_EQ(out.width, width);
        EXPECT_EQ(out.height, height);
        EXPECT_EQ(out.pixels.size(), image.pixels.size());
      } else {
        expect_error<Error>([&] { corrupted(image, c.name, 5); }, {c.name, "224 x 224"});
      }
    }
    expect_error<Error>(
        [&] {
          corrupted({224, 224, 1, Bytes(224 * 224)}, c.name, 1);
        },
        {"3 channels"});
  }
  EXPECT_EQ(std::ranges::count_if(corruptions(), &Corruption::any_size), 8);
  expect_error<Error>([] { corrupted(test_image(), "fog", 6); }, {"severity 6"});
  expect_error<Error>([] { corrupted(test_image(), "frost", 1); }, {"textures"});
}

// Fog and Gaussian blur at sizes that the benchmark does not have.
TEST(AdaptedCorruptions, SupportedImageSizes) {
  CorruptScratch scratch;
  Image out;
  for (const Corruption& c : corruptions()) {
    const std::string name = c.name;
    EXPECT_EQ(c.adapts, name == "fog" || name == "gaussian_blur") << name;
    for (auto [width, height] : {std::pair{32, 32}, {1, 1}, {5, 3}, {224, 100}, {300, 260}}) {
      const Image image = test_image(width, height);
      const CorruptionCell cell{&c, 4};
      const bool works = c.any_size || c.adapts;
      EXPECT_EQ(adapts_to(c, width, height), works) << name;
      if (!works) {
        expect_error<Error>(
            [&] { apply_adapted_corruption(image, cell, {}, nullptr, scratch, out); },
            {c.name, "224 x 224"});
        continue;
      }
      apply_adapted_corruption(image, cell, {}, nullptr, scratch, out);
      EXPECT_EQ(out.pixels.size(), image.pixels.size());
      EXPECT_TRUE(width < 5 || out.pixels != image.pixels) << name << " " << width;
    }
    EXPECT_TRUE(adapts_to(c, 224, 224));
  }
}

TEST(AdaptedCorruptions, AreThoseOfTheBenchmarkAt224) {
  CorruptScratch scratch;
  Image out;
  for (const char* name : {"fog", "gaussian_blur", "snow"}) {
    for (int severity = 1; severity <= 5; ++severity) {
      const CorruptionCell cell{find_corruption(name), severity};
      apply_adapted_corruption(test_image(), cell, {5, "a"}, nullptr, scratch, out);
      EXPECT_EQ(out.pixels, corrupted(test_image(), name, severity, "a", 5).pixels) << name;
    }
  }
}

// The veil of fog on a black and white image is the left upper part of the smallest plasma that
// covers it.
TEST(AdaptedCorruptions, FogTakesThePlasmaThatCoversTheImage) {
  constexpr int kWidth = 40, kHeight = 20, kPlasma = 64;
  Image image{kWidth, kHeight, 3, Bytes(3 * kWidth * kHeight)};
  image.pixels[0] = image.pixels[1] = image.pixels[2] = 255;
  CorruptScratch scratch;
  Image out;
  apply_adapted_corruption(image, {find_corruption("fog"), 2}, {5, "a"}, nullptr, scratch, out);
  Draws draws(5, "fog", 2, "a");
  std::vector<std::uint32_t> words;
  std::vector<float> plasma;
  corrupt::draw_plasma(2, draws, words, plasma, kPlasma);
  ASSERT_EQ(plasma.size(), std::size_t{kPlasma * kPlasma});
  for (int y = 0; y < kHeight; ++y) {
    for (int x = 0; x < kWidth; ++x) {
      if (x + y == 0) continue;
      const float veil = 255 * 2.0f * plasma[static_cast<std::size_t>(y * kPlasma + x)] / 3;
      ASSERT_NEAR(out.pixels[static_cast<std::size_t>(3 * (y * kWidth + x))], veil, 1.01) << x;
    }
  }
}

TEST(CorruptionLists, Parsing) {
  const auto names = [](const std::string& text) {
    std::string all;
    for (const Corruption* c : parse_corruptions(text))
      all += std::string(all.empty() ? "" : " ") + c->name;
    return all;
  };
  EXPECT_EQ(parse_corruptions("").size(), 15u);
  EXPECT_EQ(parse_corruptions("all").size(), 19u);
  EXPECT_EQ(names("fog,gaussian_noise,fog"), "gaussian_noise fog");
  expect_error<ConfigError>([] { parse_corruptions("fogg"); },
                            {"'fogg'", "did you mean 'fog'?", "zoom_blur"});
  for (const char* bad : {",", "fog,", "fog gaussian_noise", "../fog", "Fog"}) {
    EXPECT_THROW(parse_corruptions(bad), ConfigError) << bad;
  }
  EXPECT_EQ(parse_severities("1-5"), (std::vector{1, 2, 3, 4, 5}));
  EXPECT_EQ(parse_severities("5,1-2,2"), (std::vector{1, 2, 5}));
  for (const char* bad :
       {"", "0", "6", "1-6", "3-2", "1-", "-1", "1,,2", "10", "1.5", "x", "1-2-3"}) {
    EXPECT_THROW(parse_severities(bad), ConfigError) << bad;
  }
}

TEST(CorruptionDraws, NormalsAndWords) {
  Draws draws(3, "gaussian_noise", 2, "a/b");
  std::vector<std::uint32_t> words;
  std::vector<float> x;
  constexpr std::int64_t kCount = 1 << 20;
  draws.normals(kCount, words, x);
  double m[5] = {};
  float most = 0;
  for (std::size_t i = 0; i < kCount; ++i) {
    double power = 1;
    for (double& sum : m) {
      sum += power / kCount;
      power *= x[i];
    }
    most = std::max(most, std::fabs(x[i]));
  }
  const double root = std::sqrt(static_cast<double>(kCount));
  EXPECT_NEAR(m[1], 0, 5 / root);
  EXPECT_NEAR(m[2], 1, 5 * std::sqrt(2) / root);
  EXPECT_NEAR(m[3], 0, 5 * std::sqrt(15) / root);
  EXPECT_NEAR(m[4], 3, 5 * std::sqrt(96) / root);
  EXPECT_GT(most, 4.4f);  // of a million draws
  EXPECT_LT(most, 6.7f);
  double far = 0;
  for (std::size_t i = 0; i < kCount; ++i) far += std::fabs(x[i]) > 2;
  EXPECT_NEAR(far / kCount, .0455003, 5 * std::sqrt(.0455 / kCount));

  // All words come from the generator, and none is used twice.
  Draws again(3, "gaussian_noise", 2, "a/b");
  std::vector<std::uint32_t> first, second;
  again.words(64, first);
  const std::uint32_t single = again.word();
  again.words(100, second);
  Draws third(3, "gaussian_noise", 2, "a/b");
  std::vector<std::uint32_t> all;
  third.words(64 * 2, all);
  EXPECT_TRUE(std::equal(first.begin(), first.end(), all.begin()));
  EXPECT_EQ(single, all[64]);  // the first word of group 16
  EXPECT_EQ(second.size(), 128u);
  EXPECT_EQ(second[0], all[65]);  // of group 17
}

}  // namespace
}  // namespace dtn
