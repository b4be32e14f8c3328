#include "kernels/norm/weight_norm.h"

#include "cuda/twin.h"

namespace dtn::test {
namespace {

// Inputs and outputs of both kernels.
struct WeightNormProblem {
  DType dtype;
  std::int64_t rows, columns;
  Twin direction, gain, sums, scale, inverse_length, dgain, ddirection;

  WeightNormProblem(DType d, std::int64_t r, std::int64_t c)
      : dtype(d),
        rows(r),
        columns(c),
        direction(random_twin({r, c}, d, 1)),
        gain(random_twin({r}, d, 2)),
        sums(random_twin({r}, d, 3)),
        scale(Twin::output({r}, d)),
        inverse_length(Twin::output({r}, d)),
        dgain(Twin::accumulated({r}, d, 4)),
        ddirection(Twin::accumulated({r, c}, d, 5)) {}

  WeightNormScale forward(Where w) const {
    return {dtype, rows, columns, direction.at(w), gain.at(w), scale.at(w), inverse_length.at(w)};
  }
  WeightNormBackward backward(Where w) const {
    return {dtype,           rows,        columns,
            direction.at(w), gain.at(w),  inverse_length.at(w),
            sums.at(w),      dgain.at(w), ddirection.at(w)};
  }
};

TEST(CudaWeightNorm, MatchesFloat64) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (std::int64_t columns : {1, 7, 64, 260}) {
    for (std::int64_t rows : {1, 21}) {
      under_every_schedule([&]() -> std::vector<Tensor> {
        const WeightNormProblem exact(DType::kFloat64, rows, columns);
        const WeightNormProblem p(DType::kFloat32, rows, columns);
        run(cpu_queue(), exact.forward(kOnHost));
        run(cpu_queue(), exact.backward(kOnHost));
        run(cuda_queue(), p.forward(kOnDevice));
        run(cuda_queue(), p.backward(kOnDevice));
        const std::string what = cat(rows, " x ", columns);
        // Rounded to float32: the inputs, as the float64 problem has more digits.
        const double bound = 4 * rounding_bound(DType::kFloat32, columns);
        const auto compare = [&](const char* kernel, const Twin& got, const Twin& want) {
          expect_close(kernel, what, got.device(), doubles(want.host()), bound);
        };
        compare("weight_norm_scale", p.scale, exact.scale);
        compare("weight_norm_scale", p.inverse_length, exact.inverse_length);
        compare("weight_norm_backward", p.dgain, exact.dgain);
        compare("weight_norm_backward", p.ddirection, exact.ddirection);
        return {p.scale.device(), p.inverse_length.device(), p.dgain.device(),
                p.ddirection.device()};
      });
    }
  }
}

// A null output is left out.
TEST(CudaWeightNorm, WritesWantedOutputsOnly) {
  DTN_SKIP_WITHOUT_DEVICE();
  const WeightNormProblem all(DType::kFloat32, 5, 8), some(DType::kFloat32, 5, 8);
  run(cuda_queue(), all.forward(kOnDevice));
  run(cuda_queue(), all.backward(kOnDevice));
  WeightNormScale forward = some.forward(kOnDevice);
  run(cuda_queue(), forward);
  forward.inverse_length = nullptr;
  run(cuda_queue(), forward);
  WeightNormBackward backward = some.backward(kOnDevice);
  backward.ddirection = nullptr;
  run(cuda_queue(), backward);
  backward = some.backward(kOnDevice);
  backward.dgain = nullptr;
  run(cuda_queue(), backward);
  EXPECT_TRUE(same_bits(some.scale.device(), all.scale.device()));
  EXPECT_TRUE(same_bits(some.dgain.device(), all.dgain.device()));
  EXPECT_TRUE(same_bits(some.ddirection.device(), all.ddirection.device()));
}

TEST(CudaWeightNorm, RejectsFloat64) {
  DTN_SKIP_WITHOUT_DEVICE();
  const WeightNormProblem p(DType::kFloat64, 2, 4);
  EXPECT_THROW(run(cuda_queue(), p.forward(kOnDevice)), Error);
  EXPECT_THROW(run(cuda_queue(), p.backward(kOnDevice)), Error);
}

}  // namespace
}  // namespace dtn::test
