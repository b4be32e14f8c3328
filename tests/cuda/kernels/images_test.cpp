#include "kernels/image/images.h"

#include "core/normal_noise.h"
#include "cuda/twin.h"

namespace dtn::test {
namespace {

Tensor random_bytes(const Shape& shape, std::uint32_t stream, std::uint32_t below) {
  Tensor t = Tensor::empty(shape, DType::kUInt8);
  for (std::int64_t i = 0; i < t.numel(); ++i) {
    std::uint32_t word = philox_u32({30, stream, 0}, static_cast<std::uint64_t>(i));
    t.data<std::uint8_t>()[i] = static_cast<std::uint8_t>(word % below);
  }
  return t;
}

struct Case {
  std::int64_t batch, channels, height, width;
  bool flips;
  int shift;
};

TEST(CudaImages, NormalizeMatchesHostBitForBit) {
  DTN_SKIP_WITHOUT_DEVICE();
  // Whole and partial words of pixels, unaligned addresses, and more channels than shared memory
  // has tables for.
  for (Case c :
       {Case{1, 1, 1, 1, false, 0}, Case{3, 3, 24, 32, true, 0}, Case{3, 3, 24, 32, false, 0},
        Case{3, 3, 24, 32, true, 1}, Case{2, 1, 28, 28, true, 0}, Case{5, 3, 37, 53, true, 0},
        Case{2, 4, 16, 8, true, 0}, Case{1, 60, 5, 8, true, 0}}) {
    under_every_schedule([&] {
      Twin pixels(random_bytes({c.batch * c.height * c.width * c.channels + 1}, 1, 256));
      Twin flips = c.flips ? Twin(random_bytes({c.batch}, 2, 2)) : Twin();
      Twin table = random_twin({c.channels, 256}, DType::kFloat32, 31);
      Twin images = Twin::output({c.batch, c.channels, c.height, c.width}, DType::kFloat32);
      auto args = [&](Where w) {
        return NormalizeImages{c.batch,
                               c.channels,
                               c.height,
                               c.width,
                               static_cast<std::uint8_t*>(pixels.at(w)) + c.shift,
                               static_cast<std::uint8_t*>(flips.at(w)),
                               static_cast<float*>(table.at(w)),
                               static_cast<float*>(images.at(w))};
      };
      run(cpu_queue(), args(kOnHost));
      run(cuda_queue(), args(kOnDevice));
      std::string what = cat(c.batch, " x ", c.channels, " x ", c.height, " x ", c.width,
                             c.flips ? ", flipped" : "", c.shift ? ", unaligned" : "");
      EXPECT_TRUE(same_bits(images.device(), images.host())) << what;
      record_error("normalize_images", what, DType::kFloat32,
                   relative_error(doubles(images.device()), doubles(images.host())), 0);
      return std::vector{images.device()};
    });
  }
}

TEST(CudaImages, PadMatchesHostBitForBit) {
  DTN_SKIP_WITHOUT_DEVICE();
  constexpr std::int64_t kBatch = 3, kHeight = 37, kWidth = 41, kCapacity = 3 * kHeight * kWidth;
  under_every_schedule([&] {
    Twin pixels(random_bytes({kBatch, kCapacity}, 6, 256));
    Twin sizes(Tensor::from(std::vector<std::int64_t>{37, 41, 20, 41, 1, 3}, {kBatch, 2}));
    Twin table = random_twin({3, 256}, DType::kFloat32, 32);
    Twin images = Twin::output({kBatch, 3, kHeight, kWidth}, DType::kFloat32);
    auto args = [&](Where w) {
      return PadImages{kBatch,
                       3,
                       kHeight,
                       kWidth,
                       kCapacity,
                       static_cast<std::uint8_t*>(pixels.at(w)),
                       static_cast<std::int64_t*>(sizes.at(w)),
                       static_cast<float*>(table.at(w)),
                       static_cast<float*>(images.at(w))};
    };
    run(cpu_queue(), args(kOnHost));
    run(cuda_queue(), args(kOnDevice));
    EXPECT_TRUE(same_bits(images.device(), images.host()));
    record_error("pad_images", "3 images", DType::kFloat32,
                 relative_error(doubles(images.device()), doubles(images.host())), 0);
    return std::vector{images.device()};
  });
}

TEST(CudaImages, EraseMatchesHostBitForBit) {
  DTN_SKIP_WITHOUT_DEVICE();
  const Twin table(Tensor::from(std::span(normal_table(), kNormalTableSize), {kNormalTableSize}));
  // Boxes of a batch: none, inside a group of random words, across many groups, the whole image.
  const std::vector<std::int64_t> boxes = {0,  0, 0,  0,  0, 5, 3, 2,  4, 77, 0,  0,  53, 37, -5,
                                           13, 9, 40, 25, 8, 9, 1, 17, 2, 9,  52, 36, 1,  1,  1};
  const Twin twin(Tensor::from(boxes, {6, 5}));
  for (std::int64_t channels : {1, 3}) {
    under_every_schedule([&] {
      Twin images = random_twin({6, channels, 37, 53}, DType::kFloat32, 32);
      auto args = [&](Where w) {
        return EraseImages{6,
                           channels,
                           37,
                           53,
                           static_cast<std::int64_t*>(twin.at(w)),
                           static_cast<float*>(table.at(w)),
                           static_cast<float*>(images.at(w))};
      };
      const Tensor before = images.host().clone();
      run(cpu_queue(), args(kOnHost));
      run(cuda_queue(), args(kOnDevice));
      EXPECT_FALSE(same_bits(images.host(), before));
      EXPECT_TRUE(same_bits(images.device(), images.host())) << channels;
      record_error("erase_images", cat("6 x ", channels, " x 37 x 53"), DType::kFloat32,
                   relative_error(doubles(images.device()), doubles(images.host())), 0);
      return std::vector{images.device()};
    });
  }
}

TEST(CudaImages, EmptyBatchIsNoOp) {
  DTN_SKIP_WITHOUT_DEVICE();
  run(cuda_queue(), EraseImages{0, 3, 8, 8, nullptr, nullptr, nullptr});
  run(cuda_queue(), NormalizeImages{0, 3, 8, 8, nullptr, nullptr, nullptr, nullptr});
}

}  // namespace
}  // namespace dtn::test
