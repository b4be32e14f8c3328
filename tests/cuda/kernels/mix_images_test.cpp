#include "kernels/image/mix_images.h"

#include "cuda/twin.h"

namespace dtn::test {
namespace {

void expect_same_as_host(const char* kernel, const std::string& what, const Twin& images) {
  EXPECT_TRUE(same_bits(images.device(), images.host())) << kernel << ": " << what;
  record_error(kernel, what, DType::kFloat32,
               relative_error(doubles(images.device()), doubles(images.host())), 0);
}

TEST(CudaMixImages, BlendMatchesHostBitForBit) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (std::int64_t batch : {1, 2, 5}) {
    for (std::int64_t values : {1, 27, 3072}) {
      for (std::int64_t shift : {0, 1}) {
        under_every_schedule([&] {
          Twin images = random_twin({batch * values + shift}, DType::kFloat32, 41);
          const Tensor before = images.host().clone();
          auto args = [&](Where w) {
            return BlendPairs{batch, values, 0.3f, 0.7f, static_cast<float*>(images.at(w)) + shift};
          };
          run(cpu_queue(), args(kOnHost));
          run(cuda_queue(), args(kOnDevice));
          EXPECT_EQ(same_bits(images.host(), before), batch == 1);
          expect_same_as_host("blend_pairs", cat(batch, " x ", values, shift ? ", unaligned" : ""),
                              images);
          return std::vector{images.device()};
        });
      }
    }
  }
}

TEST(CudaMixImages, SwapMatchesHostBitForBit) {
  DTN_SKIP_WITHOUT_DEVICE();
  struct Box {
    std::int64_t left, top, width, height;
  };
  for (std::int64_t batch : {1, 2, 5}) {
    for (Box box : {Box{0, 0, 29, 23}, {2, 3, 21, 9}, {28, 22, 1, 1}, {3, 2, 0, 4}, {3, 2, 4, 0}}) {
      under_every_schedule([&] {
        Twin images = random_twin({batch, 3, 23, 29}, DType::kFloat32, 42);
        auto args = [&](Where w) {
          return SwapBoxes{batch,     3,          23,
                           29,        box.left,   box.top,
                           box.width, box.height, static_cast<float*>(images.at(w))};
        };
        run(cpu_queue(), args(kOnHost));
        run(cuda_queue(), args(kOnDevice));
        expect_same_as_host("swap_boxes", cat(batch, " of ", box.width, " x ", box.height), images);
        return std::vector{images.device()};
      });
    }
  }
}

TEST(CudaMixImages, PairsLabels) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (std::int64_t batch : {0, 1, 5, 300}) {
    Tensor l = Tensor::empty({batch}, DType::kInt64);
    for (std::int64_t i = 0; i < batch; ++i) l.data<std::int64_t>()[i] = i * 7919 % 1000;
    Twin labels(l), partners = Twin::output({batch}, DType::kInt64);
    Twin share = Twin::output({batch}, DType::kFloat32);
    for (Where w : {kOnHost, kOnDevice}) {
      const PairLabels args{batch, static_cast<std::int64_t*>(labels.at(w)), 0.3f,
                            static_cast<std::int64_t*>(partners.at(w)),
                            static_cast<float*>(share.at(w))};
      w == kOnHost ? run(cpu_queue(), args) : run(cuda_queue(), args);
    }
    EXPECT_TRUE(same_bits(partners.device(), partners.host()));
    EXPECT_TRUE(same_bits(share.device(), share.host()));
  }
}

}  // namespace
}  // namespace dtn::test
