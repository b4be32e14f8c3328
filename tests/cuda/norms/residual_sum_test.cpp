// A residual sum that a normalizer computes in its kernels on the device. The outputs and all
// gradients have the bits of the sum followed by the norm.
#include <algorithm>

#include "cuda/twin.h"
#include "dtn/ops/drop.h"
#include "dtn/ops/linear.h"
#include "kernels/cuda/trace.h"
#include "norm_cases.h"

namespace dtn::test {
namespace {

constexpr std::int64_t kBatch = 3, kChannels = 48, kHeads = 3;

struct SumCase {
  const char* name;
  std::vector<NormOption> options;  // of dtn; "layer norm" has none
  TokenGrid grid;
  bool fuses;  // in the tensor-core or plain kernels, or in kernels before them
};

// Inputs that need a gradient.
struct Wants {
  bool residual = true, branch = true;
};

bool has_separate_add(const cuda::Trace& trace) {
  return std::ranges::any_of(trace.launches(), [](const cuda::TimedLaunch& launch) {
    return launch.name == "scale_rows" || launch.name == "add";
  });
}

void build_on_device(const SumCase& c, DType dtype, BuiltNorm& built) {
  NormConfig config;
  config.type = c.options.empty() ? "ln" : "dtn";
  config.options = c.options;
  const NormShape norm_shape{kChannels, kHeads, 1e-5, c.grid};
  built.norm = make_normalizer(config, norm_shape, {built.store, "norm"});
  built.store.allocate(DType::kFloat32, kCuda);
  built.store.values().copy_from(build_norm(config, norm_shape, DType::kFloat32)->store.values());
  if (dtype == DType::kBFloat16) built.store.enable_bfloat16();
}

// `fused`: uses forward_sum(), which must fuse the addition if the case says so. The sum is also
// used beside the norm, as in a residual stream.
std::vector<Tensor> run_sum(const SumCase& c, DType dtype, bool scaled, bool fused,
                            Wants wants = {}) {
  BuiltNorm built;
  build_on_device(c, dtype, built);
  const Shape shape = {kBatch, c.grid.tokens(), kChannels};
  auto leaf = [&](std::uint32_t stream, bool wanted) {
    return Variable(as(random_tensor(shape, stream), dtype).to(kCuda), wanted);
  };
  const Variable residual = leaf(1, wants.residual), branch = leaf(2, wants.branch);
  const Tensor scale =
      scaled ? as(random_tensor({kBatch}, 3, 0.5, 1), DType::kFloat32).to(kCuda) : Tensor();
  Tape tape;
  Context ctx;
  ctx.tape = &tape;
  Variable sum, y;
  if (fused) {
    const cuda::Trace trace;
    y = built.norm->forward_sum(ctx, residual, branch, scale, c.grid, sum);
    EXPECT_EQ(has_separate_add(trace), !c.fuses);
  } else {
    sum = ops::residual_add(ctx, residual, branch, scale);
    y = built.norm->forward(ctx, sum, c.grid);
  }
  const Variable out = ops::residual_add(ctx, sum, y, {});
  std::vector<Tensor> results = {sum.value(), y.value()};
  tape.backward(out, as(random_tensor(shape, 4), dtype).to(kCuda));
  if (wants.residual) results.push_back(residual.grad());
  if (wants.branch) results.push_back(branch.grad());
  results.push_back(built.store.gradients());
  for (Tensor& t : results) t = t.to(kCpu);
  return results;
}

void expect_same_bits(const std::vector<Tensor>& got, const std::vector<Tensor>& want) {
  for (std::size_t i = 0; i < want.size(); ++i) {
    EXPECT_TRUE(same_bits(got[i], want[i])) << "result " << i;
  }
}

TEST(CudaResidualSum, SameBitsAsSeparateSumAndNorm) {
  DTN_SKIP_WITHOUT_DEVICE();
  auto text = [](const char* s) { return OptionValue(std::string(s)); };
  const OptionValue learnt = text("learnable");
  const SumCase cases[] = {{"layer norm", {}, {6, 5}, true},
                           {"dtn", {{"lambda", learnt}}, {6, 5}, true},
                           {"large grids", {{"lambda", learnt}}, {17, 3}, false},
                           {"official", {{"variant", text("official")}}, {6, 5}, false},
                           {"fixed lambda", {{"lambda", 0.3}}, {6, 5}, true},
                           {"only the variance", {{"only_var", true}}, {6, 5}, true},
                           {"a line", {{"lambda", learnt}}, {1, 19}, false},
                           {"cells", {{"pool", std::int64_t{2}}}, {6, 4}, false},
                           {"tokens ahead", {{"prefix", text("ln")}}, {6, 5, 1}, false}};
  for (const SumCase& c : cases) {
    for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      for (bool scaled : {true, false}) {
        SCOPED_TRACE(cat(c.name, ", ", name_of(dtype), scaled ? ", scaled" : ""));
        for (const Wants& wants : {Wants{}, Wants{false, true}, Wants{true, false}}) {
          expect_same_bits(run_sum(c, dtype, scaled, true, wants),
                           run_sum(c, dtype, scaled, false, wants));
        }
      }
    }
  }
}

// A branch that ends in a linear layer. Returns y and all gradients; the last one is of the bias.
std::vector<Tensor> run_linear_branch(const SumCase& c, DType dtype, bool fused, bool elsewhere) {
  BuiltNorm built;
  build_on_device(c, dtype, built);
  const Shape shape = {kBatch, c.grid.tokens(), kChannels};
  auto parameter = [](const Shape& s, std::uint32_t stream) {
    return Variable(as(random_tensor(s, stream), DType::kFloat32).to(kCuda), true);
  };
  const Variable x(as(random_tensor(shape, 1), dtype).to(kCuda), true);
  const Variable weight = parameter({kChannels, kChannels}, 2), bias = parameter({kChannels}, 3);
  const Tensor scale = as(random_tensor({kBatch}, 5, 0.5, 1), DType::kFloat32).to(kCuda);
  Tape tape;
  Context ctx;
  ctx.tape = &tape;
  const Variable branch = ops::linear(ctx, x, weight, bias);
  // Other operations also read the branch, before and after the sum.
  const Variable before = elsewhere ? ops::gelu(ctx, branch) : Variable();
  Variable sum, y;
  if (fused) {
    y = built.norm->forward_sum(ctx, x, branch, scale, c.grid, sum);
  } else {
    sum = ops::residual_add(ctx, x, branch, scale);
    y = built.norm->forward(ctx, sum, c.grid);
  }
  Variable out = ops::residual_add(ctx, sum, y, {});
  if (elsewhere) {
    out = ops::residual_add(ctx, out, before, {});
    if (c.grid.height > 5) out = ops::residual_add(ctx, out, ops::gelu(ctx, branch), {});
  }
  const cuda::Trace trace;
  tape.backward(out, as(random_tensor(shape, 4), dtype).to(kCuda));
  const auto sums = std::ranges::count(trace.launches(), "sum_rows", &cuda::TimedLaunch::name);
  EXPECT_EQ(sums == 0, fused && c.fuses && !elsewhere) << sums << " sums of rows";
  std::vector<Tensor> results = {y.value(), x.grad(), weight.grad(), built.store.gradients(),
                                 bias.grad()};
  for (Tensor& t : results) t = t.to(kCpu);
  return results;
}

// The norm's backward pass sums the columns of the branch gradient, for the bias at the end of the
// branch. The gradients of other uses of the branch must be included.
TEST(CudaResidualSum, SumsGradientOfBranchBias) {
  DTN_SKIP_WITHOUT_DEVICE();
  auto text = [](const char* s) { return OptionValue(std::string(s)); };
  const OptionValue learnt = text("learnable");
  const SumCase cases[] = {{"layer norm", {}, {6, 5}, true},
                           {"layer norm, seen before alone", {}, {5, 6}, true},
                           {"dtn", {{"lambda", learnt}}, {6, 5}, true},
                           {"dtn, seen before alone", {{"lambda", learnt}}, {5, 6}, true},
                           {"large grids", {{"lambda", learnt}}, {17, 3}, false}};
  for (const SumCase& c : cases) {
    for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      for (bool elsewhere : {false, true}) {
        SCOPED_TRACE(cat(c.name, ", ", name_of(dtype), elsewhere ? ", seen elsewhere" : ""));
        std::vector<Tensor> got = run_linear_branch(c, dtype, true, elsewhere);
        std::vector<Tensor> want = run_linear_branch(c, dtype, false, elsewhere);
        const Doubles bias = doubles(got.back()), expected = doubles(want.back());
        got.pop_back(), want.pop_back();
        expect_same_bits(got, want);
        const double terms = 10 * static_cast<double>(kBatch * c.grid.tokens());
        EXPECT_LE(relative_error(bias, expected, terms),
                  rounding_bound(DType::kFloat32, 200) + unit_roundoff(dtype));
      }
    }
  }
}

}  // namespace
}  // namespace dtn::test
