// Linear layers that share their input, against single layers.
#include "ops/gemm/linear_group.h"

#include <gtest/gtest.h>

#include "dtn/nn/linear.h"
#include "dtn/ops/primitive.h"
#include "tensors.h"
#include "tiny_vit.h"

namespace dtn {
namespace {

constexpr std::int64_t kRows = 7;

struct Layers {
  ParameterStore store;
  std::vector<Linear> layers;

  Layers(std::int64_t in, std::int64_t out) {
    for (int i = 0; i < 3; ++i) layers.emplace_back(Scope{store} / i, in, out);
    store.allocate();
    store.initialize(1);
    test::perturb(store);
  }
  std::vector<Variable> weights() const {
    std::vector<Variable> all;
    for (const Linear& layer : layers) all.push_back(layer.w());
    return all;
  }
  std::vector<Variable> biases() const {
    std::vector<Variable> all;
    for (const Linear& layer : layers) all.push_back(layer.b());
    return all;
  }
  // True if the weights are one matrix in memory.
  bool is_one_matrix() const {
    return layers[1].weight->offset - layers[0].weight->offset == layers[0].weight->shape.numel();
  }
};

struct GroupRun {
  test::Doubles outputs, dx, gradients;
};

// Runs both forms with the same inputs and cotangents.
GroupRun run_layers(Layers& l, bool grouped) {
  const std::int64_t in = l.layers[0].w().dim(1), out = l.layers[0].w().dim(0);
  const Variable x(test::as(test::random_tensor({kRows, in}, 4), DType::kFloat32), true);
  Tape tape;
  Context ctx;
  ctx.tape = &tape;
  l.store.zero_gradients();
  std::vector<Variable> outputs;
  if (grouped) {
    const ops::LinearGroup group(ctx, x, l.weights(), l.biases());
    for (std::size_t i = 0; i < 3; ++i) {
      const auto [a, b] = group.part<2>(ctx, i, {out / 4, out - out / 4});
      outputs.push_back(primitive::concat(ctx, a, b, 1));
    }
  } else {
    for (const Linear& layer : l.layers) outputs.push_back(layer.forward(ctx, x));
  }
  Variable all =
      primitive::concat(ctx, primitive::concat(ctx, outputs[0], outputs[1], 1), outputs[2], 1);
  tape.backward(all, test::as(test::random_tensor(all.shape(), 5), DType::kFloat32));
  return {test::doubles(all.value()), test::doubles(x.grad()), test::doubles(l.store.gradients())};
}

TEST(LinearGroup, EqualsSingleLayers) {
  struct Sizes {
    std::int64_t in, out;
    bool one_matrix;
  };
  for (const Sizes& s : {Sizes{64, 48, true}, Sizes{20, 120, false}, Sizes{128, 256, true}}) {
    SCOPED_TRACE(cat(s.in, " -> ", s.out));
    Layers l(s.in, s.out);
    EXPECT_EQ(l.is_one_matrix(), s.one_matrix);
    const GroupRun want = run_layers(l, false), got = run_layers(l, true);
    const double tolerance =
        4 * test::unit_roundoff(DType::kFloat32) * std::sqrt(static_cast<double>(3 * s.out));
    for (const auto& [a, b] : {std::pair(&want.outputs, &got.outputs), std::pair(&want.dx, &got.dx),
                               std::pair(&want.gradients, &got.gradients)}) {
      EXPECT_GT(test::max_abs(*a), 0.1);
      EXPECT_LE(test::max_abs_difference(*a, *b), tolerance * test::max_abs(*a));
    }
  }
}

TEST(LinearGroup, FrozenLayersGetNoGradient) {
  Layers l(64, 48);
  const GroupRun all = run_layers(l, true);
  l.store.freeze([](const Parameter& p) { return p.name.starts_with("1."); }, true);
  const GroupRun some = run_layers(l, true);
  EXPECT_EQ(some.outputs, all.outputs);
  EXPECT_EQ(some.dx, all.dx);
  for (const Parameter& p : l.store.parameters()) {
    const Tensor gradient = ParameterStore::view(l.store.gradients(), p);
    EXPECT_EQ(test::max_abs(test::doubles(gradient)) > 0, !p.name.starts_with("1.")) << p.name;
  }
}

TEST(LinearGroup, RejectsSizesThatDiffer) {
  Layers l(64, 48);
  Context ctx;
  const Variable x(Tensor::zeros({2, 32}, DType::kFloat32));
  EXPECT_THROW(ops::LinearGroup(ctx, x, l.weights(), l.biases()), Error);
  const Variable fits(Tensor::zeros({2, 64}, DType::kFloat32));
  const ops::LinearGroup group(ctx, fits, l.weights(), l.biases());
  EXPECT_THROW((group.part<2>(ctx, 0, {24, 23})), Error);
}

}  // namespace
}  // namespace dtn
