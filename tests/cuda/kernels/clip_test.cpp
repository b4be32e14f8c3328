// Clipping of gradients by units and by tensors.
#include <algorithm>

#include "cuda/twin.h"
#include "kernels/optimizer/adaptive_clip.h"
#include "kernels/optimizer/parameter_clip.h"

namespace dtn::test {
namespace {

constexpr DType kF = DType::kFloat32;

// Compares the device with the host. `least` is the smallest change of a gradient that proves that
// it was clipped.
template <class Problem>
void expect_host_results(const char* kernel, double least) {
  const Doubles before = doubles(Problem().grad.host());
  under_every_schedule([&] {
    const Problem p;
    run(cpu_queue(), p.args(kOnHost));
    run(cuda_queue(), p.args(kOnDevice));
    const Doubles want = doubles(p.grad.host());
    EXPECT_GT(max_abs_difference(before, want), least);
    expect_close(kernel, cat(p.count), p.grad.device(), want, 2 * unit_roundoff(kF));
    return std::vector{p.grad.device()};
  });
}

// Returns the results for a first gradient that is NaN.
template <class Problem>
Doubles clip_with_nan(Problem& p) {
  Tensor g = p.grad.host().clone();
  g.template data<float>()[0] = NAN;
  p.grad = Twin(g);
  run(cuda_queue(), p.args(kOnDevice));
  return doubles(p.grad.device());
}

// Units of many lengths with gaps between them. Every other unit is clipped.
struct UnitProblem {
  std::int64_t count = 0;
  Twin units, param, grad;

  UnitProblem() {
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
  expect_host_results<UnitProblem>("adaptive_clip", 0.1);
}

TEST(CudaAdaptiveClip, PropagatesNaN) {
  DTN_SKIP_WITHOUT_DEVICE();
  UnitProblem p;
  const Doubles got = clip_with_nan(p);
  EXPECT_TRUE(std::isnan(got[0]));
  EXPECT_TRUE(std::isfinite(got[8]));
  AdaptiveClip nothing = p.args(kOnDevice);
  nothing.unit_count = 0;
  run(cuda_queue(), nothing);
}

// Tensors of many lengths with gaps between them, in chunks. Every other tensor is clipped.
struct TensorProblem {
  std::int64_t count = 0, chunk_count = 0, tensor_count = 0;
  Twin grad, chunks, first_chunk;

  TensorProblem() {
    std::vector<std::int64_t> table, first{0};
    std::vector<float> scales;
    for (std::int64_t size :
         std::initializer_list<std::int64_t>{1, 3, 127, 128, kTensorChunk, 2 * kTensorChunk + 77}) {
      for (float scale : {100.0f, 1e-3f}) {
        for (std::int64_t i = 0; i < size; i += kTensorChunk, ++chunk_count) {
          table.insert(table.end(),
                       {count + i, count + std::min(i + kTensorChunk, size), tensor_count});
        }
        first.push_back(chunk_count);
        count += (size + 127) / 128 * 128;
        scales.resize(static_cast<std::size_t>(count), scale);
        ++tensor_count;
      }
    }
    chunks = Twin(Tensor::from(table, {chunk_count, 3}));
    first_chunk = Twin(Tensor::from(first, {tensor_count + 1}));
    Tensor g = as(random_tensor({count}, 1), kF);
    for (std::size_t i = 0; i < scales.size(); ++i) g.data<float>()[i] *= scales[i];
    grad = Twin(g);
  }
  ParameterClip args(Where w) const {
    return {static_cast<float*>(grad.at(w)),
            {chunk_count, tensor_count, static_cast<const TensorChunk*>(chunks.at(w)),
             static_cast<const std::int64_t*>(first_chunk.at(w))},
            3,
            0.5};
  }
};

TEST(CudaParameterClip, MatchesHost) {
  DTN_SKIP_WITHOUT_DEVICE();
  expect_host_results<TensorProblem>("parameter_clip", 10);
}

TEST(CudaParameterClip, PropagatesNaN) {
  DTN_SKIP_WITHOUT_DEVICE();
  TensorProblem p;
  const Doubles got = clip_with_nan(p);
  EXPECT_TRUE(std::isnan(got[0]));
  EXPECT_EQ(std::ranges::count_if(got, [](double v) { return !std::isfinite(v); }), 1);
  run(cuda_queue(), ParameterClip{nullptr, {}, 1});
}

}  // namespace
}  // namespace dtn::test
