// Runs the references of fused operations on the device: an operation works without a fused kernel.
// Also tests convolutions of tokens as a model calls them.
#include "core/cuda_device.h"
#include "cuda/twin.h"
#include "dtn/ops/attention.h"
#include "dtn/ops/convolution.h"
#include "dtn/ops/drop.h"
#include "dtn/ops/grouped_attention.h"
#include "dtn/ops/linear.h"
#include "dtn/ops/loss.h"
#include "dtn/ops/modulation.h"
#include "dtn/ops/positions.h"
#include "dtn/ops/tokens.h"
#include "op_runs.h"

namespace dtn::test {
namespace {

class NoSpareMemory {
 public:
  NoSpareMemory() { cuda::set_spare_memory_limit(0); }
  ~NoSpareMemory() { cuda::set_spare_memory_limit(cuda::device_info().total_bytes / 2); }
  NoSpareMemory(const NoSpareMemory&) = delete;
  NoSpareMemory& operator=(const NoSpareMemory&) = delete;
};

// Returns the output, then the gradient of each input.
std::vector<Doubles> run_on_device(const Op& op, const std::vector<Input>& inputs, DType dtype,
                                   Device device) {
  std::vector<Variable> leaves;
  for (const Input& input : inputs) {
    const DType type = input.parameter ? accumulator_of(dtype) : dtype;
    leaves.emplace_back(as(input.value, type).to(device), true);
  }
  Tape tape;
  Context ctx;
  ctx.tape = &tape;
  ctx.mode.training = true;
  ctx.rng.seed = 5;
  const Variable y = op(ctx, leaves);
  std::vector<Doubles> results = {doubles(y.value().to(kCpu))};
  tape.backward(y, as(representable(random_tensor(y.shape(), 99)), y.dtype()).to(device));
  for (const Variable& leaf : leaves) results.push_back(doubles(leaf.grad().to(kCpu)));
  return results;
}

void check(const char* name, const Op& op, const std::vector<Input>& inputs, std::int64_t terms) {
  const auto want = run_on_device(op, inputs, DType::kFloat64, kCpu);
  for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (Device device : {kCpu, kCuda}) {
      // bfloat16 is widened at each input and rounded at each output, also between two consecutive
      // references.
      const double bound =
          dtype == DType::kBFloat16 ? bfloat16_tolerance(3) : 2 * float32_tolerance(terms);
      expect_close(run_on_device(op, inputs, dtype, device), want, bound,
                   cat(name, ", ", name_of(dtype), " on ", to_string(device)));
    }
  }
}

TEST(CudaReferences, OperationsMatchFloat64) {
  DTN_SKIP_WITHOUT_DEVICE();
  using Leaves = std::vector<Variable>;
  namespace r = ops::reference;
  check(
      "attention_on_grid",
      [](Context& c, const Leaves& v) { return r::attention_on_grid(c, v[0], 2, v[1], 3, 4); },
      {Input::activation({2, 12, 30}, 1), Input::weight({2, 3}, 2, 0.3)}, 2 * 12 * 12);
  check(
      "grouped_attention",
      [](Context& c, const Leaves& v) {
        const std::vector<std::int64_t> tokens = {1, 2, 7, 4, 0, 3, 5, 6};
        const std::vector<std::int64_t> regions = {0, 0, 0, 0, 1, 2, 2, 1};
        const ops::GroupedAttention how{
            2,          {0, 5, 5}, {10, 5, 5},
            {20, 5, 5}, 0.4,       ops::TokenGroups::make(tokens, regions, 2, v[0].device())};
        return r::grouped_attention(c, v[0], v[0], v[1], how);
      },
      {Input::activation({2, 8, 30}, 13), Input::weight({2, 4, 4}, 14)}, 2 * 8);
  check(
      "mlp_residual",
      [](Context& c, const Leaves& v) {
        return r::mlp_residual(c, v[0], v[1], v[2], v[3], v[4], v[0], {});
      },
      {Input::activation({2, 7, 13}, 3), Input::weight({17, 13}, 4), Input::weight({17}, 5),
       Input::weight({13, 17}, 6), Input::weight({13}, 7)},
      17);
  check(
      "modulated_layer_norm",
      [](Context& c, const Leaves& v) { return r::modulated_layer_norm(c, v[0], v[1], 1e-5); },
      {Input::activation({3, 5, 37}, 8), Input::weight({3, 74}, 9)}, 37);
  check(
      "dropout", [](Context& c, const Leaves& v) { return r::dropout(c, v[0], 0.3, 7); },
      {Input::activation({3, 5, 7}, 10)}, 1);
  check(
      "prepend_tokens",
      [](Context& c, const Leaves& v) { return r::prepend_tokens(c, v[0], v[1]); },
      {Input::activation({3, 5, 7}, 11), Input::weight({1, 1, 7}, 12)}, 3);
  check(
      "cross_entropy",
      [](Context& c, const Leaves& v) {
        ops::Targets targets;
        targets.smoothing = 0.1;
        targets.labels = Tensor::from(std::vector<std::int64_t>{4, 0, 10}, {3}).to(v[0].device());
        return r::cross_entropy(c, v[0], targets);
      },
      {Input::activation({3, 11}, 13, 9)}, 11);
  check(
      "weighted_cross_entropy",
      [](Context& c, const Leaves& v) {
        ops::Targets targets;
        targets.smoothing = 0.1;
        targets.labels = Tensor::from(std::vector<std::int64_t>{4, 0, 10}, {3}).to(v[0].device());
        const Tensor weights = as(random_tensor({11}, 14, 1, 1), DType::kFloat32);
        return r::weighted_cross_entropy(c, v[0], targets, {weights.to(v[0].device()), 2});
      },
      {Input::activation({3, 11}, 13, 3)}, 11);
}

TEST(CudaReferences, ResampledPositionsMatchFloat64) {
  DTN_SKIP_WITHOUT_DEVICE();
  const Op op = [](Context& c, const std::vector<Variable>& v) {
    return ops::resample_positions(c, v[0], {5, 4}, {3, 7});
  };
  check("resample_positions", op, {Input::weight({1, 2 + 20, 6}, 15)}, 16);
}

// The activation is kept for the backward pass if memory allows. Otherwise it is recomputed.
TEST(CudaMlp, SameBitsWithKeptOrRecomputedActivation) {
  DTN_SKIP_WITHOUT_DEVICE();
  const std::vector<Input> inputs = {Input::activation({2, 7, 16}, 3), Input::weight({24, 16}, 4),
                                     Input::weight({24}, 5), Input::weight({16, 24}, 6),
                                     Input::weight({16}, 7)};
  for (ops::GeluForm form : {ops::GeluForm::kExact, ops::GeluForm::kTanh}) {
    const Op mlp = [form](Context& c, const std::vector<Variable>& v) {
      return ops::mlp_residual(c, v[0], v[1], v[2], v[3], v[4], v[0], {}, form);
    };
    for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      const auto kept = run_on_device(mlp, inputs, dtype, kCuda);
      std::vector<Doubles> again;
      {
        const NoSpareMemory none;
        EXPECT_FALSE(cuda::has_spare_memory(1));
        again = run_on_device(mlp, inputs, dtype, kCuda);
      }
      EXPECT_TRUE(cuda::has_spare_memory(1));
      EXPECT_EQ(kept, again);
    }
  }
}

TEST(CudaReferences, TokenConvolutionsMatchFloat64) {
  DTN_SKIP_WITHOUT_DEVICE();
  using Leaves = std::vector<Variable>;
  const std::vector<Input> dense = {Input::activation({2, 30, 8}, 20),
                                    Input::weight({16, 8, 3, 3}, 21), Input::weight({16}, 22)};
  const std::vector<Input> of_channels = {dense[0], Input::weight({8, 1, 3, 3}, 23),
                                          Input::weight({8}, 24)};
  const std::vector<Input> linear = {dense[0], Input::weight({5, 8, 1, 1}, 25),
                                     Input::weight({5}, 26)};
  const primitive::Conv2d strided{{2, 2}, {1, 1}}, depthwise{{1, 1}, {1, 1}, 8};
  for (auto convolution : {ops::convolution, ops::reference::convolution}) {
    auto on = [&](const primitive::Conv2d& how) {
      return Op([&how, convolution](Context& c, const Leaves& v) {
        return convolution(c, v[0], 5, 6, v[1], v[2], how);
      });
    };
    check("convolution", on(strided), dense, 144);
    check("depthwise convolution", on(depthwise), of_channels, 60);
    const primitive::Conv2d plain{};
    check("pointwise convolution", on(plain), linear, 60);
  }
  for (auto split : {ops::soft_split, ops::reference::soft_split}) {
    check(
        "soft_split", [&](Context& c, const Leaves& v) { return split(c, v[0], 5, 6, 3, 2, 1); },
        {dense[0]}, 4);
  }
  for (auto every : {ops::every_nth, ops::reference::every_nth}) {
    check(
        "every_nth", [&](Context& c, const Leaves& v) { return every(c, v[0], 5, 6, 2); },
        {dense[0]}, 1);
  }
  const primitive::Pool2d how{{3, 3}, {2, 2}, {1, 1}};
  for (auto pool :
       {ops::max_pool, ops::reference::max_pool, ops::avg_pool, ops::reference::avg_pool}) {
    check(
        "pool", [&](Context& c, const Leaves& v) { return pool(c, v[0], 5, 6, how); }, {dense[0]},
        9);
  }
}

}  // namespace
}  // namespace dtn::test
