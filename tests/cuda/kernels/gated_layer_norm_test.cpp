// Layer normalization after a gated residual sum: the bits are those of the separate kernels.
#include "cuda/kernels/layer_norm_problem.h"
#include "kernels/pointwise/modulate.h"

namespace dtn::test {
namespace {

// A gated branch before the norm, and scales instead of gains.
struct GatedProblem : LayerNormSetProblem {
  Twin gate, dgate;

  GatedProblem(DType d, std::int64_t count, std::int64_t rows_of_set, std::int64_t c,
               std::int64_t shifted = 0)
      : LayerNormSetProblem(d, count, rows_of_set, c, 2 * c, 0, shifted) {
    sets.scales = true;
    gate = random_twin({count * c}, DType::kFloat32, 21);
    dgate = Twin::output({count * c}, DType::kFloat32);
  }
  std::int64_t samples() const { return rows / sets.rows; }
  LayerNormForward gated_forward(Where w) const {
    LayerNormForward f = forward(w);
    f.x = nullptr;
    f.residual = at(x, w);
    f.branch = at(branch, w);
    f.gate = gate.at(w);
    f.sum = at(sum, w);
    f.sets = sets;
    return f;
  }
  LayerNormBackward gated_backward(Where w) const {
    LayerNormBackward b = backward(w);
    b.x = at(sum, w);
    b.sets = sets;
    b.dbranch_sums = nullptr;
    b.row_scale = nullptr;
    b.branch = at(branch, w);
    b.gate = gate.at(w);
    b.dgate = dgate.at(w);
    return b;
  }
  // Runs the sum, the norm and their backward passes in separate kernels.
  template <class Queue>
  void run_parts(Queue& queue, Where w) const {
    run(queue, GateForward{dtype, samples(), sets.rows, channels, at(branch, w), gate.at(w),
                           at(x, w), at(sum, w)});
    LayerNormForward f = forward(w);
    f.x = at(sum, w);
    f.sets = sets;
    run(queue, f);
    LayerNormBackward b = gated_backward(w);
    b.gate = b.branch = nullptr;
    b.dbranch = b.dgate = nullptr;
    run(queue, b);
    run(queue, GateBackward{dtype, samples(), sets.rows, channels, at(branch, w), gate.at(w),
                            at(dx, w), at(dbranch, w), dgate.at(w)});
  }
  template <class Queue>
  void run_fused(Queue& queue, Where w) const {
    run(queue, gated_forward(w));
    run(queue, gated_backward(w));
  }
  std::vector<const Twin*> all() const {
    return {&sum, &y, &mean, &rstd, &dx, &dbranch, &dgate, &dweight, &dbias};
  }
};

TEST(CudaGatedLayerNorm, HasBitsOfSeparateKernels) {
  DTN_SKIP_WITHOUT_DEVICE();
  const std::int64_t shapes[][3] = {{5, 3, 192}, {2, 67, 100}, {3, 37, 433}, {1, 41, 432},
                                    {2, 5, 768}, {2, 3, 1024}, {2, 5, 1032}};
  for (DType dtype : kLayerNormTypes) {
    for (auto [count, rows, channels] : shapes) {
      for (std::int64_t shift : {0, 1}) {
        SCOPED_TRACE(cat(name_of(dtype), " ", count, " x ", rows, " x ", channels));
        const GatedProblem fused(dtype, count, rows, channels, shift),
            parts(dtype, count, rows, channels, shift);
        fused.run_fused(cuda_queue(), kOnDevice);
        parts.run_parts(cuda_queue(), kOnDevice);
        fused.run_fused(cpu_queue(), kOnHost);
        parts.run_parts(cpu_queue(), kOnHost);
        const auto got = fused.all(), want = parts.all();
        for (std::size_t i = 0; i < got.size(); ++i) {
          EXPECT_TRUE(same_bits(got[i]->device(), want[i]->device())) << "result " << i;
          EXPECT_TRUE(same_bits(got[i]->host(), want[i]->host())) << "result " << i << " on host";
        }
        // The parts are compared with float64 elsewhere.
        expect_near_layer_norm("gated y", fused, fused.y, fused.y,
                               8 * unit_roundoff(dtype) + rounding_bound(dtype, channels));
        if (shift > 0) continue;  // the element before is another one
        LayerNormForward in_place = fused.gated_forward(kOnDevice);
        in_place.sum = fused.at(fused.x, kOnDevice);
        run(cuda_queue(), in_place);
        EXPECT_TRUE(same_bits(fused.x.device(), parts.sum.device()));
      }
    }
    under_every_schedule([&] {
      const GatedProblem p(dtype, 3, 37, 96);
      p.run_fused(cuda_queue(), kOnDevice);
      std::vector<Tensor> results;
      for (const Twin* t : p.all()) results.push_back(t->device());
      return results;
    });
  }
}

TEST(CudaGatedLayerNorm, RejectsIncompleteGates) {
  DTN_SKIP_WITHOUT_DEVICE();
  const GatedProblem p(DType::kFloat32, 2, 3, 8);
  for (Where w : {kOnHost, kOnDevice}) {
    const auto rejects = [&](const auto& args) {
      EXPECT_THROW(w == kOnHost ? run(cpu_queue(), args) : run(cuda_queue(), args), Error);
    };
    LayerNormForward one_set = p.gated_forward(w);
    one_set.sets = {};
    rejects(one_set);
    LayerNormForward twice = p.gated_forward(w);
    twice.row_scale = p.row_scale.at(w);
    rejects(twice);
    LayerNormBackward no_dx = p.gated_backward(w);
    no_dx.dx = nullptr;
    rejects(no_dx);
  }
}

}  // namespace
}  // namespace dtn::test
