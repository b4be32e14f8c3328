// Compares fused operations and their references in float32 and bfloat16, forward and backward,
// with the references in float64.
#include "dtn/ops/attention.h"
#include "dtn/ops/drop.h"
#include "dtn/ops/linear.h"
#include "dtn/ops/loss.h"
#include "dtn/ops/norm.h"
#include "dtn/ops/tokens.h"
#include "op_runs.h"

namespace dtn {
namespace {

using test::Input;
using test::Op;

// `reduction`: terms of the longest sum; `roundings`: bfloat16 values stored before a result.
void compare(const std::string& name, const Op& fused, const Op& reference,
             const std::vector<Input>& inputs, std::int64_t reduction, int roundings,
             const Context& ctx = {}) {
  auto want = test::run_op(reference, inputs, DType::kFloat64, ctx);
  test::expect_close(test::run_op(fused, inputs, DType::kFloat32, ctx), want,
                     test::float32_tolerance(reduction), name + ", float32");
  test::expect_close(test::run_op(fused, inputs, DType::kBFloat16, ctx), want,
                     test::bfloat16_tolerance(roundings), name + ", bfloat16");
  test::expect_close(test::run_op(reference, inputs, DType::kFloat32, ctx), want,
                     test::float32_tolerance(reduction), name + ", float32 reference");
  test::expect_close(test::run_op(reference, inputs, DType::kBFloat16, ctx), want,
                     test::bfloat16_tolerance(roundings), name + ", bfloat16 reference");
}

// Scales as float32 for the fused run and float64 for the reference.
Tensor scales(std::int64_t batch, DType dtype) {
  Tensor t = Tensor::empty({batch}, DType::kFloat64);
  for (std::int64_t i = 0; i < batch; ++i) t.data<double>()[i] = i % 3 == 1 ? 0 : 1.25;
  return test::as(t, accumulator_of(dtype));
}

struct Size {
  std::int64_t batch, tokens, in, out;
};
constexpr ops::GeluForm kGeluForms[] = {ops::GeluForm::kExact, ops::GeluForm::kTanh};
const std::vector<Size> kSizes = {{2, 196, 432, 96}, {1, 197, 64, 131}, {3, 7, 13, 5}};

TEST(OpParity, Linear) {
  for (Size s : kSizes) {
    std::vector<Input> inputs = {Input::activation({s.batch, s.tokens, s.in}, 1),
                                 Input::weight({s.out, s.in}, 2), Input::weight({s.out}, 3)};
    auto on = [](auto op) {
      return Op(
          [op](Context& c, const std::vector<Variable>& v) { return op(c, v[0], v[1], v[2]); });
    };
    std::int64_t longest = std::max({s.batch * s.tokens, s.in, s.out});
    compare("linear", on(ops::linear), on(ops::reference::linear), inputs, longest, 1);
    // Stored in bfloat16: y, dz and the sums of dz.
    for (ops::GeluForm form : kGeluForms) {
      compare("linear_gelu", on([form](auto&&... of) { return ops::linear_gelu(of..., form); }),
              on([form](auto&&... of) { return ops::reference::linear_gelu(of..., form); }), inputs,
              longest, 3);
    }
  }
}

TEST(OpParity, LinearRows) {
  for (Size s : kSizes) {
    for (auto [begin, end] : {std::pair{std::int64_t{0}, s.out / 3}, {s.out / 3, s.out}}) {
      auto on = [begin = begin, end = end](auto op) {
        return Op([=](Context& c, const std::vector<Variable>& v) {
          return op(c, v[0], v[1], v[2], begin, end);
        });
      };
      compare("linear_rows", on(ops::linear_rows), on(ops::reference::linear_rows),
              {Input::activation({s.batch, s.tokens, s.in}, 1), Input::weight({s.out, s.in}, 2),
               Input::weight({s.out}, 3)},
              std::max({s.batch * s.tokens, s.in, s.out}), 1);
    }
  }
}

// All rows have the bits of linear(). A part of the rows agrees within rounding.
TEST(OpParity, LinearRowsMatchesRowsOfLinear) {
  Context ctx;
  const Variable x(test::as(test::random_tensor({2, 7, 64}, 1), DType::kFloat32));
  const Variable w(test::as(test::random_tensor({48, 64}, 2), DType::kFloat32));
  const Variable b(test::as(test::random_tensor({48}, 3), DType::kFloat32));
  const Tensor whole = ops::linear(ctx, x, w, b).value();
  EXPECT_TRUE(test::same_bits(ops::linear_rows(ctx, x, w, b, 0, 48).value(), whole));
  const Tensor part = ops::linear_rows(ctx, x, w, b, 16, 48).value();
  for (std::int64_t i = 0; i < 14 * 32; ++i) {
    const double want = test::element(whole, i / 32 * 48 + 16 + i % 32);
    EXPECT_NEAR(test::element(part, i), want,
                test::float32_tolerance(64) * test::max_abs(test::doubles(whole)));
  }
}

TEST(OpParity, Residuals) {
  for (Size s : kSizes) {
    for (bool dropping : {false, true}) {
      auto scale = [=](const Variable& x) {
        return dropping ? scales(s.batch, x.dtype()) : Tensor();
      };
      auto linear = [=](auto op) {
        return Op([=](Context& c, const std::vector<Variable>& v) {
          return op(c, v[0], v[1], v[2], v[3], scale(v[0]));
        });
      };
      std::int64_t longest = std::max({s.batch * s.tokens, s.in, s.out});
      compare("linear_residual", linear(ops::linear_residual),
              linear(ops::reference::linear_residual),
              {Input::activation({s.batch, s.tokens, s.in}, 4), Input::weight({s.out, s.in}, 5),
               Input::weight({s.out}, 6), Input::activation({s.batch, s.tokens, s.out}, 7)},
              longest, 2);
      auto mlp = [=](auto op) {
        return Op([=](Context& c, const std::vector<Variable>& v) {
          return op(c, v[0], v[1], v[2], v[3], v[4], v[5], scale(v[0]));
        });
      };
      // Stored in bfloat16: z, h, y; in the backward pass dbranch, dz, dx.
      for (ops::GeluForm form : kGeluForms) {
        compare("mlp_residual",
                mlp([form](auto&&... of) { return ops::mlp_residual(of..., form); }),
                mlp([form](auto&&... of) { return ops::reference::mlp_residual(of..., form); }),
                {Input::activation({s.batch, s.tokens, s.in}, 8), Input::weight({s.out, s.in}, 9),
                 Input::weight({s.out}, 10), Input::weight({s.in, s.out}, 11),
                 Input::weight({s.in}, 12), Input::activation({s.batch, s.tokens, s.in}, 13)},
                longest, 4);
      }
    }
  }
}

TEST(OpParity, Attention) {
  struct Heads {
    std::int64_t batch, tokens, heads, head_dim;
  };
  for (Heads s : {Heads{2, 196, 3, 48}, Heads{1, 197, 2, 64}, Heads{2, 31, 5, 7}}) {
    auto on = [&](auto op) {
      return Op(
          [op, s](Context& c, const std::vector<Variable>& v) { return op(c, v[0], s.heads); });
    };
    // Stored in bfloat16: probabilities and out; in the backward pass ds and dqkv.
    compare("attention", on([](Context& c, const Variable& qkv, std::int64_t heads) {
              return ops::attention(c, qkv, heads);
            }),
            on([](Context& c, const Variable& qkv, std::int64_t heads) {
              return ops::reference::attention(c, qkv, heads);
            }),
            {Input::activation({s.batch, s.tokens, 3 * s.heads * s.head_dim}, 14, 2)}, s.tokens, 4);
  }
}

TEST(OpParity, QueryAttention) {
  struct Queries {
    std::int64_t batch, queries, tokens, heads, head_dim;
  };
  for (Queries s :
       {Queries{2, 1, 197, 3, 48}, Queries{1, 3, 196, 2, 64}, Queries{2, 1, 31, 5, 7}}) {
    auto on = [&](auto op) {
      return Op([op, s](Context& c, const std::vector<Variable>& v) {
        return op(c, v[0], v[1], s.heads);
      });
    };
    // Stored in bfloat16: out and the gradients.
    compare("query_attention", on(ops::query_attention), on(ops::reference::query_attention),
            {Input::activation({s.batch, s.queries, s.heads * s.head_dim}, 14, 2),
             Input::activation({s.batch, s.tokens, 2 * s.heads * s.head_dim}, 15, 2)},
            s.tokens, 3);
  }
}

TEST(OpParity, AttentionOnGrid) {
  struct Grid {
    std::int64_t batch, height, width, heads, head_dim;
  };
  for (Grid s : {Grid{2, 14, 14, 3, 48}, Grid{1, 9, 23, 2, 64}, Grid{2, 31, 1, 5, 7}}) {
    std::int64_t tokens = s.height * s.width;
    auto on = [&](auto op) {
      return Op([op, s](Context& c, const std::vector<Variable>& v) {
        return op(c, v[0], s.heads, v[1], s.height, s.width);
      });
    };
    // Weights that attend to near tokens, as at the start of training. Where one key has all the
    // weight, ds is the rounding of terms that cancel. The weight gradient sums ds over all pairs
    // of tokens in all images.
    compare("attention_on_grid", on(ops::attention_on_grid), on(ops::reference::attention_on_grid),
            {Input::activation({s.batch, tokens, 3 * s.heads * s.head_dim}, 14, 2),
             Input::weight({s.heads, 3}, 16, 0.5, -0.6)},
            s.batch * tokens * tokens, 4);
  }
}

TEST(OpParity, Elementwise) {
  Context training;
  training.mode.training = true;
  training.rng.seed = 5;
  auto one = [](auto op) {
    return Op([op](Context& c, const std::vector<Variable>& v) { return op(c, v[0]); });
  };
  Input tokens = Input::activation({3, 197, 37}, 15, 4);
  compare("gelu", one(ops::gelu), one(ops::reference::gelu), {tokens}, 4, 1);
  auto drop = [](auto op) {
    return Op([op](Context& c, const std::vector<Variable>& v) { return op(c, v[0], 0.3, 7); });
  };
  compare("dropout", drop(ops::dropout), drop(ops::reference::dropout), {tokens}, 1, 1, training);
  auto add = [](auto op) {
    return Op([op](Context& c, const std::vector<Variable>& v) {
      return op(c, v[0], v[1], scales(3, v[0].dtype()));
    });
  };
  compare("residual_add", add(ops::residual_add), add(ops::reference::residual_add),
          {tokens, Input::activation({3, 197, 37}, 16)}, 2, 1);
}

TEST(OpParity, Tokens) {
  auto one = [](auto op) {
    return Op([op](Context& c, const std::vector<Variable>& v) { return op(c, v[0]); });
  };
  auto two = [](auto op) {
    return Op([op](Context& c, const std::vector<Variable>& v) { return op(c, v[0], v[1]); });
  };
  Input tokens = Input::activation({5, 197, 37}, 17);
  compare("add_positions", two(ops::add_positions), two(ops::reference::add_positions),
          {tokens, Input::weight({1, 197, 37}, 18)}, 5, 1);
  compare("prepend_tokens", two(ops::prepend_tokens), two(ops::reference::prepend_tokens),
          {tokens, Input::weight({1, 1, 37}, 19)}, 5, 1);
  compare("prepend_tokens", two(ops::prepend_tokens), two(ops::reference::prepend_tokens),
          {tokens, Input::weight({1, 4, 37}, 19)}, 5, 1);
  compare("first_token", one(ops::first_token), one(ops::reference::first_token), {tokens}, 1, 1);
  compare("mean_token", one(ops::mean_token), one(ops::reference::mean_token), {tokens}, 197, 1);
}

TEST(OpParity, PatchEmbed) {
  Tensor images = test::representable(test::random_tensor({2, 3, 8, 20}, 20));
  std::vector<Input> inputs = {Input::weight({24, 3, 4, 4}, 21), Input::weight({24}, 22)};
  Op reference = [&](Context& c, const std::vector<Variable>& v) {
    return ops::reference::patch_embed(c, images, v[0], v[1]);
  };
  auto want = test::run_op(reference, inputs, DType::kFloat64);
  for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    Op fused = [&](Context& c, const std::vector<Variable>& v) {
      return ops::patch_embed(c, test::as(images, DType::kFloat32), v[0], v[1], dtype);
    };
    test::expect_close(
        test::run_op(fused, inputs, dtype), want,
        dtype == DType::kFloat32 ? test::float32_tolerance(48) : test::bfloat16_tolerance(1),
        cat("patch_embed, ", name_of(dtype)));
  }
}

TEST(OpParity, Losses) {
  for (auto [smoothing, mixed] : {std::pair{0.0, false}, {0.1, false}, {0.0, true}, {0.1, true}}) {
    ops::Targets targets;
    targets.labels = Tensor::empty({19}, DType::kInt64);
    for (std::int64_t i = 0; i < 19; ++i) targets.labels.data<std::int64_t>()[i] = i * 53 % 1000;
    targets.smoothing = smoothing;
    if (mixed) {
      targets.partner_labels = Tensor::empty({19}, DType::kInt64);
      for (std::int64_t i = 0; i < 19; ++i) {
        targets.partner_labels.data<std::int64_t>()[i] =
            targets.labels.data<std::int64_t>()[18 - i];
      }
      targets.label_share = test::as(test::random_tensor({19}, 29, 0.5, 0.5), DType::kFloat32);
    }
    // The loss is computed in float32 from bfloat16 logits: only dlogits is rounded.
    compare(
        "cross_entropy",
        [&](Context& c, const std::vector<Variable>& v) {
          return ops::cross_entropy(c, v[0], targets).mean;
        },
        [&](Context& c, const std::vector<Variable>& v) {
          return ops::reference::cross_entropy(c, v[0], targets);
        },
        {Input::activation({19, 1000}, 23, 6)}, 1000, 1);
    const Tensor weights = test::as(test::random_tensor({1000}, 31, 1, 1), DType::kFloat32);
    const ops::ClassWeighting weighting{weights, mixed ? 2.0 : 0.5};
    compare(
        "weighted_cross_entropy",
        [&](Context& c, const std::vector<Variable>& v) {
          return ops::weighted_cross_entropy(c, v[0], targets, weighting).mean;
        },
        [&](Context& c, const std::vector<Variable>& v) {
          return ops::reference::weighted_cross_entropy(c, v[0], targets, weighting);
        },
        {Input::activation({19, 1000}, 23, 6)}, 1000, 1);
    const ops::BinaryOptions how{mixed ? std::optional(0.2) : std::nullopt, false};
    compare(
        "binary_cross_entropy",
        [&](Context& c, const std::vector<Variable>& v) {
          return ops::binary_cross_entropy(c, v[0], targets, how).mean;
        },
        [&](Context& c, const std::vector<Variable>& v) {
          return ops::reference::binary_cross_entropy(c, v[0], targets, how);
        },
        {Input::activation({19, 1000}, 23, 6)}, 1000, 1);
  }
}

// bfloat16 products use the low-precision copy of the weights if there is one.
TEST(OpParity, LowPrecisionCopiesAreUsed) {
  Context ctx;
  Variable x(test::as(Input::activation({2, 3, 8}, 24).value, DType::kBFloat16));
  Variable weight(test::as(Input::weight({4, 8}, 25).value, DType::kFloat32));
  Tensor before = ops::linear(ctx, x, weight, {}).value();
  weight.set_low_precision_copy(Tensor::zeros({4, 8}, DType::kBFloat16));
  Tensor after = ops::linear(ctx, x, weight, {}).value();
  EXPECT_GT(test::max_abs(test::doubles(before)), 0);
  EXPECT_EQ(test::max_abs(test::doubles(after)), 0);
}

}  // namespace
}  // namespace dtn
