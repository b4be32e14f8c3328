#include "kernels/image/images.h"

#include <gtest/gtest.h>

#include "core/normal_noise.h"
#include "dtn/core/check.h"
#include "unit/kernels/each_isa.h"

DTN_RUN_ON_EACH_ISA(NormalizeImages)
DTN_RUN_ON_EACH_ISA(EraseImages)
DTN_RUN_ON_EACH_ISA(PadImages)

namespace dtn::test {
namespace {

TEST(Images, NormalizeMatchesIndexFormula) {
  struct Case {
    std::int64_t batch, channels, height, width;
    bool flips;
  };
  for (Isa isa : isas()) {
    for (Case c : {Case{1, 1, 1, 1, false}, Case{4, 3, 7, 5, true}, Case{2, 3, 16, 32, false},
                   Case{3, 1, 28, 28, true}, Case{2, 4, 3, 17, true}}) {
      SCOPED_TRACE(
          cat(name_of(isa), " ", c.batch, " x ", c.channels, " x ", c.height, " x ", c.width));
      const std::int64_t count = c.batch * c.channels * c.height * c.width;
      std::mt19937 random(1);
      std::vector<std::uint8_t> pixels(static_cast<std::size_t>(count));
      for (std::uint8_t& p : pixels) p = static_cast<std::uint8_t>(random());
      std::vector<std::uint8_t> flips(static_cast<std::size_t>(c.batch));
      for (std::size_t b = 0; b < flips.size(); ++b) flips[b] = b % 2;
      std::vector<float> table = normal_values<float>(c.channels * 256, 2);
      std::vector<float> images(pixels.size() + 1, 9.0f);
      run_on(isa, NormalizeImages{c.batch, c.channels, c.height, c.width, pixels.data(),
                                  c.flips ? flips.data() : nullptr, table.data(), images.data()});
      std::int64_t k = 0, wrong = 0;
      for (std::int64_t b = 0; b < c.batch; ++b)
        for (std::int64_t ch = 0; ch < c.channels; ++ch)
          for (std::int64_t y = 0; y < c.height; ++y)
            for (std::int64_t x = 0; x < c.width; ++x, ++k) {
              bool flip = c.flips && b % 2;
              std::int64_t from = (b * c.height + y) * c.width + (flip ? c.width - 1 - x : x);
              std::uint8_t p = pixels[static_cast<std::size_t>(from * c.channels + ch)];
              wrong += images[static_cast<std::size_t>(k)] !=
                       table[static_cast<std::size_t>(ch * 256 + p)];
            }
      EXPECT_EQ(wrong, 0);
      EXPECT_EQ(images.back(), 9.0f) << "wrote past the end";
    }
  }
}

TEST(Images, PadPutsEachImageIntoTheCorner) {
  constexpr std::int64_t kBatch = 3, kChannels = 3, kHeight = 7, kWidth = 9, kCapacity = 200;
  const std::vector<std::int64_t> sizes = {7, 9, 4, 5, 1, 1};
  std::mt19937 random(4);
  std::vector<std::uint8_t> pixels(kBatch * kCapacity);
  for (std::uint8_t& p : pixels) p = static_cast<std::uint8_t>(random());
  const std::vector<float> table = normal_values<float>(kChannels * 256, 5);
  std::vector<float> expected;
  for (std::int64_t b = 0; b < kBatch; ++b)
    for (std::int64_t c = 0; c < kChannels; ++c)
      for (std::int64_t y = 0; y < kHeight; ++y)
        for (std::int64_t x = 0; x < kWidth; ++x) {
          const std::int64_t h = sizes[static_cast<std::size_t>(2 * b)];
          const std::int64_t w = sizes[static_cast<std::size_t>(2 * b + 1)];
          const std::int64_t from = b * kCapacity + (y * w + x) * kChannels + c;
          expected.push_back(y < h && x < w ? table[static_cast<std::size_t>(
                                                  c * 256 + pixels[static_cast<std::size_t>(from)])]
                                            : 0.0f);
        }
  for (Isa isa : isas()) {
    std::vector<float> images(expected.size() + 1, 9.0f);
    run_on(isa, PadImages{kBatch, kChannels, kHeight, kWidth, kCapacity, pixels.data(),
                          sizes.data(), table.data(), images.data()});
    EXPECT_EQ(images.back(), 9.0f) << "wrote past the end";
    images.pop_back();
    EXPECT_EQ(images, expected) << name_of(isa);
  }
}

TEST(Images, EraseWritesNoiseIntoBoxesOnly) {
  constexpr std::int64_t kBatch = 4, kChannels = 3, kHeight = 11, kWidth = 13;
  constexpr std::int64_t kImage = kChannels * kHeight * kWidth;
  const std::vector<std::int64_t> boxes = {0, 0, 0,  0,  0,  2,  3,  7, 5, 77,
                                           0, 0, 13, 11, -5, 12, 10, 1, 1, 1ll << 40};
  const std::vector<float> before = normal_values<float>(kBatch * kImage, 3);
  for (Isa isa : isas()) {
    std::vector<float> images = before;
    run_on(isa, EraseImages{kBatch, kChannels, kHeight, kWidth, boxes.data(), normal_table(),
                            images.data()});
    for (std::int64_t i = 0; i < kBatch * kImage; ++i) {
      const std::int64_t* box = &boxes[static_cast<std::size_t>(i / kImage * 5)];
      const std::int64_t x = i % kWidth, y = i / kWidth % kHeight;
      const bool in = x >= box[0] && x < box[0] + box[2] && y >= box[1] && y < box[1] + box[3];
      float want = before[static_cast<std::size_t>(i)];
      const auto element = static_cast<std::uint64_t>(i % kImage);
      if (in) write_noise(static_cast<std::uint64_t>(box[4]), element, 1, &want);
      ASSERT_EQ(images[static_cast<std::size_t>(i)], want) << name_of(isa) << " " << i;
    }
  }
}

}  // namespace
}  // namespace dtn::test
