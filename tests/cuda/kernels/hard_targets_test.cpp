#include "kernels/loss/hard_targets.h"

#include "cuda/twin.h"

namespace dtn::test {
namespace {

TEST(CudaHardTargets, MatchHost) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (std::int64_t classes : {1, 2, 31, 128, 129, 1000}) {
    under_every_schedule([&] {
      constexpr std::int64_t kRows = 6;
      Tensor z = as(random_tensor({kRows, classes}, 1), DType::kFloat32);
      float* row = z.data<float>() + classes;
      for (std::int64_t k = 0; k < classes; ++k)
        row[k] = k < classes / 3 ? 1 : 2;  // the first 2 wins
      z.data<float>()[2 * classes] = NAN;
      z.data<float>()[4 * classes - 1] = NAN;
      std::fill_n(z.data<float>() + 4 * classes, classes, -INFINITY);
      const Twin logits(z), targets = Twin::output({kRows, classes}, DType::kFloat32);
      for (Where w : {kOnHost, kOnDevice}) {
        const HardTargets args{DType::kFloat32, kRows, classes, logits.at(w), targets.at(w)};
        w == kOnHost ? run(cpu_queue(), args) : run(cuda_queue(), args);
      }
      const Doubles got = doubles(targets.device()), want = doubles(targets.host());
      EXPECT_EQ(relative_error(got, want), 0) << classes;
      EXPECT_EQ(got[static_cast<std::size_t>(classes + classes / 3)], 1);
      EXPECT_EQ(got[static_cast<std::size_t>(4 * classes)], 1);
      for (std::int64_t k = 0; k < classes; ++k) {
        EXPECT_TRUE(std::isnan(got[static_cast<std::size_t>(2 * classes + k)]));
        EXPECT_TRUE(std::isnan(got[static_cast<std::size_t>(3 * classes + k)]));
      }
      return std::vector{targets.device()};
    });
  }
}

}  // namespace
}  // namespace dtn::test
