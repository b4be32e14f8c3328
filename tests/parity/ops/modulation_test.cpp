// Compares operations with gains and shifts as inputs, activation functions and gathers in float32
// and bfloat16 with their references in float64.
#include "dtn/ops/modulation.h"

#include "dtn/ops/activation.h"
#include "dtn/ops/drop.h"
#include "dtn/ops/gather.h"
#include "op_runs.h"

namespace dtn {
namespace {

using test::Input;
using test::Op;
using Inputs = std::vector<Variable>;

// `reduction`: terms of the longest sum; `roundings`: bfloat16 values stored before a result.
void compare(const std::string& name, const Op& fused, const Op& reference,
             const std::vector<Input>& inputs, std::int64_t reduction, int roundings) {
  auto want = test::run_op(reference, inputs, DType::kFloat64);
  test::expect_close(test::run_op(fused, inputs, DType::kFloat32), want,
                     test::float32_tolerance(reduction), name + ", float32");
  test::expect_close(test::run_op(fused, inputs, DType::kBFloat16), want,
                     test::bfloat16_tolerance(roundings), name + ", bfloat16");
  test::Threads several(3);
  EXPECT_EQ(test::run_op(fused, inputs, DType::kFloat32),
            [&] {
              test::Threads one(1);
              return test::run_op(fused, inputs, DType::kFloat32);
            }())
      << name << " depends on the number of threads";
}

struct Size {
  std::int64_t batch, grid_h, grid_w, channels;
  std::int64_t tokens() const { return grid_h * grid_w; }
};
const std::vector<Size> kSizes = {{2, 14, 14, 432}, {1, 1, 197, 64}, {3, 5, 7, 77}, {1, 1, 31, 8}};

TEST(ModulationParity, LayerNorms) {
  for (Size s : kSizes) {
    for (double mean : {0.5, 1e3}) {
      const Shape shape{s.batch, s.tokens(), s.channels};
      // The mean of 1e3 acts only through x, which stores nothing finer than its roundoff.
      Input x{test::as(test::as(test::random_tensor(shape, 1, 2, mean), DType::kFloat32),
                       DType::kFloat64)};
      if (mean < 1) x.value = test::representable(x.value);
      auto on = [](auto op) {
        return Op([op](Context& c, const Inputs& v) {
          return op(c, v[0], v[1], 1e-5, ops::GainForm::kGains);
        });
      };
      std::vector<Input> inputs = {x, Input::weight({s.batch, 2 * s.channels}, 2)};
      if (mean < 1) {
        compare("modulated_layer_norm", on(ops::modulated_layer_norm),
                on(ops::reference::modulated_layer_norm), inputs, s.tokens() + s.channels, 1);
        continue;
      }
      auto want = test::run_op(on(ops::reference::modulated_layer_norm), inputs, DType::kFloat64);
      test::expect_close(test::run_op(on(ops::modulated_layer_norm), inputs, DType::kFloat32), want,
                         test::float32_tolerance(s.tokens() + s.channels) +
                             5 * mean * test::unit_roundoff(DType::kFloat32),
                         "far from zero");
    }
  }
}

TEST(ModulationParity, GatedLayerNorms) {
  for (Size s : kSizes) {
    const Shape shape{s.batch, s.tokens(), s.channels};
    const std::vector<Input> inputs = {
        Input::activation(shape, 1, 2, 0.5), Input::weight({s.batch, s.channels}, 2),
        Input::activation(shape, 3), Input::weight({s.batch, 2 * s.channels}, 4)};
    for (auto form : {ops::GainForm::kGains, ops::GainForm::kScales}) {
      auto norm_of = [form](auto op) {
        return Op([=](Context& c, const Inputs& v) {
          return op(c, v[0], v[1], v[2], v[3], 1e-5, form).y;
        });
      };
      // The sum is rounded before the norm, and then y; or dx, and then dbranch.
      compare("gated_modulated_layer_norm", norm_of(ops::gated_modulated_layer_norm),
              norm_of(ops::reference::gated_modulated_layer_norm), inputs, s.tokens() + s.channels,
              4);
    }
  }
}

// Returns sum, y and the gradients of all inputs. The sum is also used as a residual.
std::vector<Tensor> run_gated(bool fused, Size s, DType dtype) {
  const Shape shape{s.batch, s.tokens(), s.channels};
  auto leaf = [&](const Shape& of, std::uint32_t stream, DType type) {
    return Variable(test::as(test::random_tensor(of, stream, 1.5), type), true);
  };
  const DType acc = accumulator_of(dtype);
  const Variable residual = leaf(shape, 1, dtype), gate = leaf({s.batch, s.channels}, 2, acc),
                 branch = leaf(shape, 3, dtype),
                 modulation = leaf({s.batch, 2 * s.channels}, 4, acc);
  constexpr auto kScales = ops::GainForm::kScales;
  Tape tape;
  Context ctx;
  ctx.tape = &tape;
  ops::SumAndNorm out;
  if (fused) {
    out = ops::gated_modulated_layer_norm(ctx, residual, gate, branch, modulation, 1e-6, kScales);
  } else {
    out.sum = ops::gated_add(ctx, residual, gate, branch);
    out.y = ops::modulated_layer_norm(ctx, out.sum, modulation, 1e-6, kScales);
  }
  const Variable end = ops::residual_add(ctx, out.sum, out.y, {});
  tape.backward(end, test::as(test::random_tensor(shape, 5), dtype));
  return {out.sum.value(), out.y.value(), residual.grad(),
          gate.grad(),     branch.grad(), modulation.grad()};
}

TEST(ModulationParity, GatedLayerNormHasTheBitsOfItsParts) {
  for (Size s : kSizes) {
    for (DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat64}) {
      const auto want = run_gated(false, s, dtype), got = run_gated(true, s, dtype);
      for (std::size_t i = 0; i < want.size(); ++i) {
        EXPECT_TRUE(test::same_bits(got[i], want[i]))
            << "result " << i << ", " << name_of(dtype) << ", " << s.channels << " channels";
      }
    }
  }
}

TEST(ModulationParity, GatedLayerNormDoesNotDependOnThreads) {
  const auto want = [] {
    test::Threads one(1);
    return run_gated(true, kSizes[0], DType::kFloat32);
  }();
  for (int threads : {2, 3, 8}) {
    test::Threads several(threads);
    const auto got = run_gated(true, kSizes[0], DType::kFloat32);
    for (std::size_t i = 0; i < want.size(); ++i) {
      EXPECT_TRUE(test::same_bits(got[i], want[i])) << "result " << i << ", " << threads;
    }
  }
}

TEST(ModulationParity, StandardizedTokens) {
  for (Size s : kSizes) {
    std::vector<Input> inputs = {Input::activation({s.batch, s.tokens(), s.channels}, 3, 2, 0.5),
                                 Input::activation({s.batch, s.tokens(), s.channels}, 4)};
    auto fused = Op([](Context& c, const Inputs& v) {
      auto [y, mean, std] = ops::standardize_tokens(c, v[0], 1e-5);
      return ops::scale_shift_tokens(c, v[1], std, mean);
    });
    auto reference = Op([](Context& c, const Inputs& v) {
      auto [y, mean, std] = ops::reference::standardize_tokens(c, v[0], 1e-5);
      return ops::reference::scale_shift_tokens(c, v[1], std, mean);
    });
    compare("moments", fused, reference, inputs, s.channels, 1);
    compare("standardized", Op([](Context& c, const Inputs& v) {
              return ops::standardize_tokens(c, v[0], 1e-5).y;
            }),
            Op([](Context& c, const Inputs& v) {
              return ops::reference::standardize_tokens(c, v[0], 1e-5).y;
            }),
            {inputs[0]}, s.channels, 1);
  }
}

TEST(ModulationParity, GainsAndShifts) {
  for (Size s : kSizes) {
    const std::int64_t t = s.tokens(), c = s.channels;
    const Input x = Input::activation({s.batch, t, c}, 5),
                other = Input::activation({s.batch, t, c}, 6);
    auto three = [](auto op) {
      return Op([op](Context& ctx, const Inputs& v) { return op(ctx, v[0], v[1], v[2]); });
    };
    compare("scale_shift_tokens", three(ops::scale_shift_tokens),
            three(ops::reference::scale_shift_tokens),
            {x, Input::weight({s.batch, t}, 7), Input::weight({s.batch, t}, 8)}, c, 1);
    compare("gated_add", three(ops::gated_add), three(ops::reference::gated_add),
            {x, Input::weight({s.batch, c}, 9), other}, t, 1);
    auto two = [](auto op) {
      return Op([op](Context& ctx, const Inputs& v) { return op(ctx, v[0], v[1]); });
    };
    compare("modulate", two(ops::modulate), two(ops::reference::modulate),
            {x, Input::activation({s.batch, t, 2 * c}, 10)}, 2, 1);
    compare("modulate_samples", two(ops::modulate_samples), two(ops::reference::modulate_samples),
            {x, Input::weight({s.batch, 2 * c}, 12)}, t, 1);
    compare("join_columns", two(ops::join_columns), two(ops::reference::join_columns),
            {x, Input::activation({s.batch, t, 3}, 11)}, 1, 0);
    auto on_grid = [s](auto op) {
      return Op([=](Context& ctx, const Inputs& v) { return op(ctx, v[0], s.grid_h, s.grid_w); });
    };
    compare("neighbours", on_grid(ops::neighbours), on_grid(ops::reference::neighbours), {x}, 9, 1);
  }
}

TEST(ModulationParity, Activations) {
  for (double spread : {0.1, 4.0, 90.0}) {
    std::vector<Input> inputs = {Input::activation({3, 1001}, 12, spread)};
    auto on = [](Variable (*op)(Context&, const Variable&)) {
      return Op([op](Context& ctx, const Inputs& v) { return op(ctx, v[0]); });
    };
    compare("relu", on(ops::relu), on(ops::reference::relu), inputs, 1, 0);
    compare("silu", on(ops::silu), on(ops::reference::silu), inputs, 1, 1);
    compare("tanh", on(ops::tanh), on(ops::reference::tanh), inputs, 1, 1);
    compare("gelu_tanh", on(ops::gelu_tanh), on(ops::reference::gelu_tanh), inputs, 1, 1);
    compare("quick_gelu", on(ops::quick_gelu), on(ops::reference::quick_gelu), inputs, 1, 1);
    compare("hardswish", on(ops::hardswish), on(ops::reference::hardswish), inputs, 1, 1);
  }
}

// Tables and the rows taken from them are float32 for every type of activations.
TEST(ModulationParity, Tables) {
  Tensor index = Tensor::from(std::vector<std::int64_t>{7, 0, 7, 29, 3}, {5});
  auto taken = [&](auto op) {
    return Op([=](Context& ctx, const Inputs& v) { return op(ctx, v[0], index); });
  };
  auto mixed = [](auto op) {
    return Op([op](Context& ctx, const Inputs& v) { return op(ctx, v[0], v[1]); });
  };
  std::vector<Input> table = {Input::weight({30, 433}, 13)};
  std::vector<Input> both = {table[0], Input::weight({5, 30}, 14)};
  compare("take_rows", taken(ops::take_rows), taken(ops::reference::take_rows), table, 2, 0);
  compare("mix_rows", mixed(ops::mix_rows), mixed(ops::reference::mix_rows), both, 433, 1);
}

}  // namespace
}  // namespace dtn
