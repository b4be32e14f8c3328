#include "kernels/pointwise/timestep_features.h"

#include "cuda/twin.h"

namespace dtn::test {
namespace {

TEST(CudaTimestepFeatures, MatchHost) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (const std::int64_t batch : {1, 3, 130}) {
    const std::int64_t n = 128;
    Tensor steps = Tensor::empty({batch}, DType::kInt64);
    for (std::int64_t b = 0; b < batch; ++b) {
      steps.data<std::int64_t>()[b] = b == 0 ? 999 : 7919 * b % 1000;
    }
    const Twin t(steps), y = Twin::output({batch, 2 * n}, DType::kFloat32);
    for (Where where : {kOnHost, kOnDevice}) {
      const TimestepFeatures args{DType::kFloat32, batch, n,
                                  static_cast<const std::int64_t*>(t.at(where)), y.at(where)};
      where == kOnDevice ? run(cuda_queue(), args) : run(cpu_queue(), args);
    }
    // Both round float64 once.
    const double error = max_abs_difference(doubles(y.device()), doubles(y.host()));
    EXPECT_LE(error, unit_roundoff(DType::kFloat32));
    EXPECT_NEAR(element(y.host(), 0), std::cos(999.0), 1e-7) << "cosines come first";
    EXPECT_NEAR(element(y.host(), n), std::sin(999.0), 1e-7);
    EXPECT_NEAR(element(y.host(), n - 1), std::cos(999.0 * std::pow(10000.0, -127.0 / 128)), 1e-7);
    record_error("timestep_features", "batch", DType::kFloat32, error, 1e-6);
  }
}

}  // namespace
}  // namespace dtn::test
