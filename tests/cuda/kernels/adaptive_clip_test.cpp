#include "kernels/optimizer/adaptive_clip.h"

#include "cuda/twin.h"

namespace dtn::test {
namespace {

constexpr DType kF = DType::kFloat32;

// Units of many lengths with gaps between them. Every other unit is clipped.
struct Problem {
  std::int64_t count = 0;
  Twin units, param, grad;

  Problem() {
    std::vector<std::int64_t> table;
    for (std::int64_t size : {1, 3, 127, 128, 129, 1000, 5003}) {
      for (int kind = 0; kind < 2; ++kind) {
        table.insert(table.end(), {count, count + size});
        count += size + 3;
      }
    }
    const auto n = static_cast<std::int64_t>(table.size()) / 2;
    units = Twin(Tensor::from(table, {n, 2}));
    param = random_twin({count}, kF, 1);
    Tensor g = as(random_tensor({count}, 2), kF);
    for (std::int64_t u = 1; u < n; u += 2) {
      for (std::int64_t i = table[static_cast<std::size_t>(2 * u)];
           i < table[static_cast<std::size_t>(2 * u + 1)]; ++i) {
        g.data<float>()[i] *= 1e-4f;
      }
    }
    grad = Twin(g);
  }
  AdaptiveClip args(Where w) const {
    return {static_cast<float*>(grad.at(w)),
            static_cast<const float*>(param.at(w)),
            units.host().dim(0),
            static_cast<const GradientUnit*>(units.at(w)),
            0.02,
            0.5};
  }
};

TEST(CudaAdaptiveClip, MatchesHost) {
  DTN_SKIP_WITHOUT_DEVICE();
  const Doubles before = doubles(Problem().grad.host());
  under_every_schedule([&] {
    const Problem p;
    run(cpu_queue(), p.args(kOnHost));
    run(cuda_queue(), p.args(kOnDevice));
    const Doubles want = doubles(p.grad.host());
    EXPECT_GT(max_abs_difference(before, want), 0.1);
    expect_close("adaptive_clip", cat(p.count), p.grad.device(), want, 2 * unit_roundoff(kF));
    return std::vector{p.grad.device()};
  });
}

TEST(CudaAdaptiveClip, PropagatesNaN) {
  DTN_SKIP_WITHOUT_DEVICE();
  Problem p;
  Tensor g = p.grad.host().clone();
  g.data<float>()[0] = NAN;
  p.grad = Twin(g);
  run(cuda_queue(), p.args(kOnDevice));
  const Doubles got = doubles(p.grad.device());
  EXPECT_TRUE(std::isnan(got[0]));
  EXPECT_TRUE(std::isfinite(got[8]));
  AdaptiveClip nothing = p.args(kOnDevice);
  nothing.unit_count = 0;
  run(cuda_queue(), nothing);
}

}  // namespace
}  // namespace dtn::test
