// A residual sum that a normalizer makes on the way, on the device: the bits of the sum and the norm one
// after the other, of outputs and of every gradient.
#include "cuda/twin.h"
#include "dtn/ops/drop.h"
#include "norm_cases.h"

namespace dtn::test {
namespace {

constexpr std::int64_t kBatch = 3, kChannels = 48, kHeads = 3;

struct SumCase {
  const char* name;
  std::vector<NormOption> options;  // of dtn; "layer norm" has none
  TokenGrid grid;
};

// `fused`: by forward_sum(). The sum goes on beside the norm, as a residual stream does.
std::vector<Tensor> run_sum(const SumCase& c, DType dtype, bool scaled, bool fused) {
  NormConfig config;
  config.type = c.options.empty() ? "ln" : "dtn";
  config.options = c.options;
  const NormShape norm_shape{kChannels, kHeads, 1e-5, c.grid};
  BuiltNorm built;
  built.norm = make_normalizer(config, norm_shape, {built.store, "norm"});
  built.store.allocate(DType::kFloat32, kCuda);
  built.store.values().copy_from(build_norm(config, norm_shape, DType::kFloat32)->store.values());
  if (dtype == DType::kBFloat16) built.store.enable_bfloat16();
  const Shape shape = {kBatch, c.grid.tokens(), kChannels};
  auto leaf = [&](std::uint32_t stream) {
    return Variable(as(random_tensor(shape, stream), dtype).to(kCuda), true);
  };
  const Variable residual = leaf(1), branch = leaf(2);
  const Tensor scale =
      scaled ? as(random_tensor({kBatch}, 3, 0.5, 1), DType::kFloat32).to(kCuda) : Tensor();
  Tape tape;
  Context ctx;
  ctx.tape = &tape;
  Variable sum, y;
  if (fused) {
    y = built.norm->forward_sum(ctx, residual, branch, scale, c.grid, sum);
  } else {
    sum = ops::residual_add(ctx, residual, branch, scale);
    y = built.norm->forward(ctx, sum, c.grid);
  }
  const Variable out = ops::residual_add(ctx, sum, y, {});
  std::vector<Tensor> results = {sum.value(), y.value()};
  tape.backward(out, as(random_tensor(shape, 4), dtype).to(kCuda));
  for (const Tensor& t : {residual.grad(), branch.grad(), built.store.gradients()}) {
    results.push_back(t);
  }
  for (Tensor& t : results) t = t.to(kCpu);
  return results;
}

TEST(CudaResidualSum, BitsOfSumAndNormApart) {
  DTN_SKIP_WITHOUT_DEVICE();
  auto text = [](const char* s) { return OptionValue(std::string(s)); };
  const SumCase cases[] = {{"layer norm", {}, {6, 5}},
                           {"dtn", {{"lambda", text("learnable")}}, {6, 5}},
                           {"large grids", {{"lambda", text("learnable")}}, {17, 3}},
                           {"official", {{"variant", text("official")}}, {6, 5}},
                           {"fixed lambda", {{"lambda", 0.3}}, {6, 5}},
                           {"only the variance", {{"only_var", true}}, {6, 5}},
                           {"a line", {{"lambda", text("learnable")}}, {1, 19}},
                           {"cells", {{"pool", std::int64_t{2}}}, {6, 4}},
                           {"tokens ahead", {{"prefix", text("ln")}}, {6, 5, 1}}};
  for (const SumCase& c : cases) {
    for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      for (bool scaled : {true, false}) {
        SCOPED_TRACE(cat(c.name, ", ", name_of(dtype), scaled ? ", scaled" : ""));
        const auto got = run_sum(c, dtype, scaled, true), want = run_sum(c, dtype, scaled, false);
        for (std::size_t i = 0; i < want.size(); ++i) {
          EXPECT_TRUE(same_bits(got[i], want[i])) << "result " << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace dtn::test
