// Checks operations with gains and shifts as inputs, activation functions and gathers, and their
// references, against central differences in float64.
#include "dtn/ops/modulation.h"

#include "dtn/ops/activation.h"
#include "dtn/ops/drop.h"
#include "dtn/ops/gather.h"
#include "gradcheck/ops/op_gradients.h"

namespace dtn {
namespace {

using test::check;
using test::check_both;
using test::Inputs;
using test::Op;
using test::random_tensor;

auto unary(Variable (*op)(Context&, const Variable&)) {
  return Op([op](Context& c, const Inputs& v) { return op(c, v[0]); });
}
auto binary(Variable (*op)(Context&, const Variable&, const Variable&)) {
  return Op([op](Context& c, const Inputs& v) { return op(c, v[0], v[1]); });
}
auto ternary(Variable (*op)(Context&, const Variable&, const Variable&, const Variable&)) {
  return Op([op](Context& c, const Inputs& v) { return op(c, v[0], v[1], v[2]); });
}

constexpr double kEps = 1e-3;

TEST(ModulationGradients, ModulatedLayerNorm) {
  for (std::int64_t tokens : {1, 5, 11}) {  // less than a group of rows; a group and a remainder
    std::vector<Tensor> inputs = {random_tensor({3, tokens, 7}, 1, 1.5), random_tensor({3, 14}, 2)};
    check_both(
        cat("modulated_layer_norm of ", tokens),
        [](Context& c, const Inputs& v) { return ops::modulated_layer_norm(c, v[0], v[1], kEps); },
        [](Context& c, const Inputs& v) {
          return ops::reference::modulated_layer_norm(c, v[0], v[1], kEps);
        },
        inputs);
    check(
        "modulated_layer_norm beside a residual",
        [](Context& c, const Inputs& v) {
          return ops::residual_add(c, v[0], ops::modulated_layer_norm(c, v[0], v[1], kEps), {});
        },
        inputs);
  }
}

TEST(ModulationGradients, ModulatedLayerNormWithScales) {
  constexpr auto kScales = ops::GainForm::kScales;
  check_both(
      "modulated_layer_norm with scales",
      [](Context& c, const Inputs& v) {
        return ops::modulated_layer_norm(c, v[0], v[1], kEps, kScales);
      },
      [](Context& c, const Inputs& v) {
        return ops::reference::modulated_layer_norm(c, v[0], v[1], kEps, kScales);
      },
      {random_tensor({3, 5, 7}, 1, 1.5), random_tensor({3, 14}, 2)});
}

// A stream of two gated branches, each before a norm: the first sum has two uses. `wanted`: inputs
// with a gradient, of residual, gate, branch and modulation.
TEST(ModulationGradients, GatedModulatedLayerNorm) {
  for (auto form : {ops::GainForm::kGains, ops::GainForm::kScales}) {
    for (auto op :
         {&ops::gated_modulated_layer_norm, &ops::reference::gated_modulated_layer_norm}) {
      const bool fused = op == &ops::gated_modulated_layer_norm;
      for (std::int64_t tokens : {1, 5, 11}) {
        check(cat("gated_modulated_layer_norm of ", tokens, fused ? "" : ", reference"),
              [&](Context& c, const Inputs& v) {
                const std::size_t before = c.tape ? c.tape->size() : 0;
                auto [sum, y] = op(c, v[0], v[1], v[2], v[3], kEps, form);
                EXPECT_EQ(!c.tape || c.tape->size() == before + 2, fused || !c.tape)
                    << "a node for the sum and one for the norm";
                return ops::residual_add(c, sum, ops::gelu_tanh(c, y), {});
              },
              {random_tensor({3, tokens, 7}, 1, 1.5), random_tensor({3, 7}, 2),
               random_tensor({3, tokens, 7}, 3), random_tensor({3, 14}, 4)});
      }
    }
  }
}

// The norm alone, and the sum alone: the other output has no gradient.
TEST(ModulationGradients, OutputsOfGatedModulatedLayerNorm) {
  const std::vector<Tensor> inputs = {random_tensor({2, 5, 7}, 1, 1.5), random_tensor({2, 7}, 2),
                                      random_tensor({2, 5, 7}, 3), random_tensor({2, 14}, 4)};
  check(
      "norm",
      [](Context& c, const Inputs& v) {
        return ops::gated_modulated_layer_norm(c, v[0], v[1], v[2], v[3], kEps).y;
      },
      inputs);
  check(
      "sum",
      [&](Context& c, const Inputs& v) {
        return ops::gated_modulated_layer_norm(c, v[0], v[1], v[2], Variable(inputs[3]), kEps).sum;
      },
      {inputs[0], inputs[1], inputs[2]});
  check("no gate",
        [&](Context& c, const Inputs& v) {
          return ops::gated_modulated_layer_norm(c, v[0], Variable(inputs[1]), v[1], v[2], kEps).y;
        },
        {inputs[0], inputs[2], inputs[3]});
}

// All outputs of a standardized token, and each output alone. Unused outputs get no gradient and
// must not stop the gradients of the others.
TEST(ModulationGradients, StandardizedTokens) {
  std::vector<Tensor> inputs = {random_tensor({2, 3, 7}, 3, 1.5)};
  for (auto standardize : {&ops::standardize_tokens, &ops::reference::standardize_tokens}) {
    check(
        "all",
        [&](Context& c, const Inputs& v) {
          auto [y, mean, std] = standardize(c, v[0], kEps);
          return ops::scale_shift_tokens(c, y, std, mean);
        },
        inputs);
    check(
        "moments of another",
        [&](Context& c, const Inputs& v) {
          auto [y, mean, std] = standardize(c, v[0], kEps);
          return ops::scale_shift_tokens(c, v[0], std, mean);
        },
        inputs);
    check(
        "y", [&](Context& c, const Inputs& v) { return standardize(c, v[0], kEps).y; }, inputs);
    check(
        "mean", [&](Context& c, const Inputs& v) { return standardize(c, v[0], kEps).mean; },
        inputs);
    check(
        "std", [&](Context& c, const Inputs& v) { return standardize(c, v[0], kEps).std; }, inputs);
    check(
        "std, beside a residual",
        [&](Context& c, const Inputs& v) {
          Variable std = standardize(c, v[0], kEps).std;
          return ops::scale_shift_tokens(c, ops::relu(c, v[0]), std, std);
        },
        inputs);
  }
}

TEST(ModulationGradients, GainsAndShifts) {
  Tensor x = random_tensor({2, 5, 7}, 4);
  check_both("scale_shift_tokens", ternary(ops::scale_shift_tokens),
             ternary(ops::reference::scale_shift_tokens),
             {x, random_tensor({2, 5}, 5), random_tensor({2, 5}, 6)});
  check_both("modulate", binary(ops::modulate), binary(ops::reference::modulate),
             {x, random_tensor({2, 5, 14}, 7)});
  check("modulate beside a residual",
        [](Context& c, const Inputs& v) {
          return ops::residual_add(c, v[0], ops::modulate(c, v[0], v[1]), {});
        },
        {x, random_tensor({2, 5, 14}, 7)});
  check_both("modulate_samples", binary(ops::modulate_samples),
             binary(ops::reference::modulate_samples), {x, random_tensor({2, 14}, 7)});
  check("modulate_samples beside a residual",
        [](Context& c, const Inputs& v) {
          return ops::residual_add(c, v[0], ops::modulate_samples(c, v[0], v[1]), {});
        },
        {x, random_tensor({2, 14}, 7)});
  check_both("gated_add", ternary(ops::gated_add), ternary(ops::reference::gated_add),
             {x, random_tensor({2, 7}, 8), random_tensor({2, 5, 7}, 9)});
}

TEST(ModulationGradients, Activations) {
  std::vector<Tensor> inputs = {random_tensor({3, 37}, 10, 3)};
  check_both("relu", unary(ops::relu), unary(ops::reference::relu), inputs);
  check_both("silu", unary(ops::silu), unary(ops::reference::silu), inputs);
  check_both("tanh", unary(ops::tanh), unary(ops::reference::tanh), inputs);
  check_both("gelu_tanh", unary(ops::gelu_tanh), unary(ops::reference::gelu_tanh), inputs);
  check_both("quick_gelu", unary(ops::quick_gelu), unary(ops::reference::quick_gelu), inputs);
  check_both("hardswish", unary(ops::hardswish), unary(ops::reference::hardswish), inputs);
}

TEST(ModulationGradients, Gathers) {
  for (auto [h, w] : {std::pair<std::int64_t, std::int64_t>{3, 4}, {1, 5}, {2, 1}}) {
    auto on = [h = h, w = w](auto op) {
      return Op([=](Context& c, const Inputs& v) { return op(c, v[0], h, w); });
    };
    check_both(cat("neighbours ", h, " x ", w), on(ops::neighbours), on(ops::reference::neighbours),
               {random_tensor({2, h * w, 3}, 11)});
  }
  Tensor index =
      Tensor::from(std::vector<std::int64_t>{2, 0, 2, 4}, {4});  // 2 twice, 1 and 3 never
  auto on = [&](auto op) {
    return Op([=](Context& c, const Inputs& v) { return op(c, v[0], index); });
  };
  check_both("take_rows", on(ops::take_rows), on(ops::reference::take_rows),
             {random_tensor({5, 6}, 12)});
  check_both("mix_rows", binary(ops::mix_rows), binary(ops::reference::mix_rows),
             {random_tensor({5, 6}, 13), random_tensor({4, 5}, 14)});
  check_both("join_columns", binary(ops::join_columns), binary(ops::reference::join_columns),
             {random_tensor({2, 3, 4}, 15), random_tensor({2, 3, 2}, 16)});
}

}  // namespace
}  // namespace dtn
