// References of fused operations on the device: what has no fused kernel works all the same.
#include "cuda/twin.h"
#include "dtn/ops/attention.h"
#include "dtn/ops/drop.h"
#include "dtn/ops/linear.h"
#include "dtn/ops/loss.h"
#include "dtn/ops/modulation.h"
#include "dtn/ops/tokens.h"
#include "op_runs.h"

namespace dtn::test {
namespace {

// The output, then the gradient of each input.
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
      // bfloat16 is widened where it comes in and rounded where it goes out, and between two
      // references that follow each other.
      const double bound =
          dtype == DType::kBFloat16 ? bfloat16_tolerance(3) : 2 * float32_tolerance(terms);
      expect_close(run_on_device(op, inputs, dtype, device), want, bound,
                   cat(name, ", ", name_of(dtype), " on ", to_string(device)));
    }
  }
}

TEST(CudaReferences, OfOperations) {
  DTN_SKIP_WITHOUT_DEVICE();
  using Leaves = std::vector<Variable>;
  namespace r = ops::reference;
  check(
      "attention_on_grid",
      [](Context& c, const Leaves& v) { return r::attention_on_grid(c, v[0], 2, v[1], 3, 4); },
      {Input::activation({2, 12, 30}, 1), Input::weight({2, 3}, 2, 0.3)}, 2 * 12 * 12);
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
}

}  // namespace
}  // namespace dtn::test
