#include "kernels/image/mix_images.h"

#include <gtest/gtest.h>

#include "dtn/core/check.h"
#include "unit/kernels/each_isa.h"

DTN_RUN_ON_EACH_ISA(BlendPairs)
DTN_RUN_ON_EACH_ISA(SwapBoxes)
DTN_RUN_ON_EACH_ISA(PairLabels)

namespace dtn::test {
namespace {

TEST(MixImages, BlendMixesEachImageWithItsPartner) {
  const float share = 0.3f, rest = 0.7f;
  for (Isa isa : isas()) {
    for (std::int64_t batch : {1, 2, 3, 6}) {
      for (std::int64_t values : {1, 17, 16384, 40001}) {
        const std::vector<float> before = normal_values<float>(batch * values, 1);
        std::vector<float> expected = before;
        for (std::int64_t b = 0; b < batch; ++b) {
          if (2 * b + 1 == batch) continue;  // the image in the middle is its own partner
          for (std::int64_t i = 0; i < values; ++i) {
            const float own = before[static_cast<std::size_t>(b * values + i)];
            const float partner = before[static_cast<std::size_t>((batch - 1 - b) * values + i)];
            const volatile float other = rest * partner;  // rounded
            expected[static_cast<std::size_t>(b * values + i)] = std::fma(share, own, other);
          }
        }
        for (int threads : {1, 3}) {
          Threads scope(threads);
          std::vector<float> images = before;
          images.push_back(9);
          run_on(isa, BlendPairs{batch, values, share, rest, images.data()});
          EXPECT_EQ(images.back(), 9) << "wrote past the end";
          images.pop_back();
          EXPECT_TRUE(same_bits(images, expected))
              << name_of(isa) << " " << batch << " x " << values;
        }
      }
    }
  }
}

TEST(MixImages, SwapCopiesBoxFromPartner) {
  constexpr std::int64_t kChannels = 3, kHeight = 7, kWidth = 9, kImage = kChannels * 7 * 9;
  struct Box {
    std::int64_t left, top, width, height;
  };
  for (Isa isa : isas()) {
    for (std::int64_t batch : {1, 2, 5}) {
      for (Box box : {Box{0, 0, 9, 7}, {2, 3, 4, 1}, {8, 6, 1, 1}, {3, 2, 0, 4}, {3, 2, 4, 0}}) {
        const std::vector<float> before = normal_values<float>(batch * kImage, 2);
        std::vector<float> images = before;
        run_on(isa, SwapBoxes{batch, kChannels, kHeight, kWidth, box.left, box.top, box.width,
                              box.height, images.data()});
        for (std::int64_t i = 0; i < batch * kImage; ++i) {
          const std::int64_t x = i % kWidth, y = i / kWidth % kHeight, b = i / kImage;
          const bool in =
              x >= box.left && x < box.left + box.width && y >= box.top && y < box.top + box.height;
          const std::int64_t from = in ? (batch - 1 - b) * kImage + i % kImage : i;
          ASSERT_EQ(images[static_cast<std::size_t>(i)], before[static_cast<std::size_t>(from)])
              << name_of(isa) << " " << i;
        }
      }
    }
  }
}

TEST(MixImages, PairsLabels) {
  const std::vector<std::int64_t> labels = {4, 8, 15, 16, 23};
  for (Isa isa : isas()) {
    std::vector<std::int64_t> partners(5);
    std::vector<float> share(5);
    run_on(isa, PairLabels{5, labels.data(), 0.25f, partners.data(), share.data()});
    EXPECT_EQ(partners, (std::vector<std::int64_t>{23, 16, 15, 8, 4}));
    EXPECT_EQ(share, std::vector<float>(5, 0.25f));
  }
}

}  // namespace
}  // namespace dtn::test
