// Checks every fused operation and its reference against central differences in float64. The fused
// kernels are templates that also run in float64. A fused operation is one node of the tape.
#include "dtn/ops/attention.h"
#include "dtn/ops/drop.h"
#include "dtn/ops/linear.h"
#include "dtn/ops/loss.h"
#include "dtn/ops/norm.h"
#include "dtn/ops/positions.h"
#include "dtn/ops/primitive.h"
#include "dtn/ops/tokens.h"
#include "gradcheck/ops/op_gradients.h"

namespace dtn {
namespace {

using test::check;
using test::check_both;
using test::Inputs;
using test::Op;
using test::random_tensor;

Context training() {
  Context ctx;
  ctx.mode.training = true;
  ctx.rng.seed = 11;
  ctx.rng.step = 3;
  ctx.rng.first_sample = 2;
  return ctx;
}

// Drop-path scales of three samples; one sample is dropped.
Tensor some_scales() { return Tensor::from<double>(std::vector<double>{1.25, 0, 1.25}, {3}); }

constexpr ops::GeluForm kGeluForms[] = {ops::GeluForm::kExact, ops::GeluForm::kTanh};

TEST(OpGradients, Linear) {
  std::vector<Tensor> with_bias = {random_tensor({3, 5, 7}, 1), random_tensor({6, 7}, 2),
                                   random_tensor({6}, 3)};
  std::vector<Tensor> without = {with_bias[0], with_bias[1]};
  auto on = [](auto op) {
    return Op([op](Context& c, const Inputs& v) {
      return op(c, v[0], v[1], v.size() > 2 ? v[2] : Variable());
    });
  };
  for (const auto& inputs : {with_bias, without}) {
    check_both("linear", on(ops::linear), on(ops::reference::linear), inputs);
    for (ops::GeluForm form : kGeluForms) {
      check_both("linear_gelu", on([form](auto&&... of) { return ops::linear_gelu(of..., form); }),
                 on([form](auto&&... of) { return ops::reference::linear_gelu(of..., form); }),
                 inputs);
    }
  }
}

// Rows of one weight, used separately: their gradients are accumulated in one buffer.
TEST(OpGradients, LinearRows) {
  std::vector<Tensor> with_bias = {random_tensor({3, 5, 7}, 1), random_tensor({6, 7}, 2),
                                   random_tensor({6}, 3)};
  auto on = [](auto op) {
    return Op([op](Context& c, const Inputs& v) {
      const Variable bias = v.size() > 2 ? v[2] : Variable();
      Variable first = op(c, v[0], v[1], bias, 0, 2), rest = op(c, v[0], v[1], bias, 2, 6);
      return primitive::concat(c, first, rest, 2);
    });
  };
  for (const auto& inputs : {with_bias, {with_bias[0], with_bias[1]}}) {
    check("linear_rows", on(ops::linear_rows), inputs);
    check("linear_rows, reference", on(ops::reference::linear_rows), inputs);
  }
}

TEST(OpGradients, LinearResidual) {
  std::vector<Tensor> inputs = {random_tensor({3, 5, 7}, 4), random_tensor({6, 7}, 5),
                                random_tensor({6}, 6), random_tensor({3, 5, 6}, 7)};
  for (const Tensor& scale : {Tensor(), some_scales()}) {
    auto on = [&](auto op) {
      return Op([op, scale](Context& c, const Inputs& v) {
        return op(c, v[0], v[1], v[2], v[3], scale);
      });
    };
    check_both("linear_residual", on(ops::linear_residual), on(ops::reference::linear_residual),
               inputs);
  }
}

TEST(OpGradients, MlpResidual) {
  std::vector<Tensor> inputs = {random_tensor({3, 5, 4}, 8), random_tensor({9, 4}, 9),
                                random_tensor({9}, 10),      random_tensor({4, 9}, 11),
                                random_tensor({4}, 12),      random_tensor({3, 5, 4}, 13)};
  for (const Tensor& scale : {Tensor(), some_scales()}) {
    auto on = [&](auto op) {
      return Op([op, scale](Context& c, const Inputs& v) {
        return op(c, v[0], v[1], v[2], v[3], v[4], v[5], scale);
      });
    };
    for (ops::GeluForm form : kGeluForms) {
      check_both(
          "mlp_residual", on([form](auto&&... of) { return ops::mlp_residual(of..., form); }),
          on([form](auto&&... of) { return ops::reference::mlp_residual(of..., form); }), inputs);
    }
  }
}

TEST(OpGradients, Gelu) {
  auto on = [](auto op) { return Op([op](Context& c, const Inputs& v) { return op(c, v[0]); }); };
  check_both("gelu", on(ops::gelu), on(ops::reference::gelu), {random_tensor({3, 17}, 14, 4)});
}

TEST(OpGradients, Attention) {
  struct Size {
    std::int64_t batch, tokens, heads, head_dim;
  };
  for (Size s : {Size{2, 5, 3, 4}, Size{1, 1, 2, 3}, Size{1, 37, 1, 7}, Size{3, 2, 5, 1},
                 Size{1, 67, 2, 5}}) {
    auto on = [&](auto op) {
      return Op([op, s](Context& c, const Inputs& v) { return op(c, v[0], s.heads); });
    };
    check_both(cat("attention B", s.batch, " T", s.tokens, " H", s.heads, " D", s.head_dim),
               on([](Context& c, const Variable& qkv, std::int64_t heads) {
                 return ops::attention(c, qkv, heads);
               }),
               on([](Context& c, const Variable& qkv, std::int64_t heads) {
                 return ops::reference::attention(c, qkv, heads);
               }),
               {random_tensor({s.batch, s.tokens, 3 * s.heads * s.head_dim}, 15, 1.5)});
  }
}

TEST(OpGradients, QueryAttention) {
  struct Size {
    std::int64_t batch, queries, tokens, heads, head_dim;
  };
  for (Size s :
       {Size{2, 1, 5, 3, 4}, Size{1, 3, 37, 1, 7}, Size{3, 2, 2, 2, 1}, Size{1, 1, 67, 2, 5}}) {
    auto on = [&](auto op) {
      return Op([op, s](Context& c, const Inputs& v) { return op(c, v[0], v[1], s.heads); });
    };
    check_both(cat("query_attention B", s.batch, " Q", s.queries, " T", s.tokens),
               on(ops::query_attention), on(ops::reference::query_attention),
               {random_tensor({s.batch, s.queries, s.heads * s.head_dim}, 15, 1.5),
                random_tensor({s.batch, s.tokens, 2 * s.heads * s.head_dim}, 16, 1.5)});
  }
}

// One of the two inputs may be fixed.
TEST(OpGradients, QueryAttentionWithOneFixedInput) {
  Variable q(random_tensor({2, 1, 6}, 17)), kv(random_tensor({2, 5, 12}, 18));
  check("query_attention, fixed keys and values",
        [&](Context& c, const Inputs& v) { return ops::query_attention(c, v[0], kv, 2); },
        {q.value()});
  check("query_attention, fixed queries",
        [&](Context& c, const Inputs& v) { return ops::query_attention(c, q, v[0], 2); },
        {kv.value()});
}

TEST(OpGradients, AttentionOnGrid) {
  struct Size {
    std::int64_t batch, grid_h, grid_w, heads, head_dim;
  };
  for (Size s : {Size{2, 2, 3, 3, 4}, Size{1, 7, 5, 2, 7}, Size{3, 1, 4, 1, 2}}) {
    std::int64_t tokens = s.grid_h * s.grid_w;
    auto on = [&](auto op) {
      return Op([op, s](Context& c, const Inputs& v) {
        return op(c, v[0], s.heads, v[1], s.grid_h, s.grid_w);
      });
    };
    check_both(cat("attention_on_grid B", s.batch, " ", s.grid_h, "x", s.grid_w, " H", s.heads),
               on(ops::attention_on_grid), on(ops::reference::attention_on_grid),
               {random_tensor({s.batch, tokens, 3 * s.heads * s.head_dim}, 15, 1.5),
                random_tensor({s.heads, 3}, 16, 0.5)});
  }
}

// One of the two inputs may be fixed.
TEST(OpGradients, AttentionOnGridWithOneFixedInput) {
  Variable qkv(random_tensor({2, 6, 12}, 17)), weight(random_tensor({2, 3}, 18));
  check("attention_on_grid, fixed qkv",
        [&](Context& c, const Inputs& v) { return ops::attention_on_grid(c, qkv, 2, v[0], 2, 3); },
        {weight.value()});
  check(
      "attention_on_grid, fixed weights",
      [&](Context& c, const Inputs& v) { return ops::attention_on_grid(c, v[0], 2, weight, 2, 3); },
      {qkv.value()});
}

TEST(OpGradients, Dropout) {
  auto on = [](auto op) {
    return Op([op](Context& c, const Inputs& v) { return op(c, v[0], 0.4, 9); });
  };
  check_both("dropout", on(ops::dropout), on(ops::reference::dropout),
             {random_tensor({3, 5, 7}, 16)}, training());
}

TEST(OpGradients, ResidualAdd) {
  Tensor drawn = ops::drop_path_scales(training(), 3, 0.3, 4, DType::kFloat64);
  for (const Tensor& scale : {Tensor(), some_scales(), drawn}) {
    auto on = [&](auto op) {
      return Op([op, scale](Context& c, const Inputs& v) { return op(c, v[0], v[1], scale); });
    };
    check_both("residual_add", on(ops::residual_add), on(ops::reference::residual_add),
               {random_tensor({3, 5, 7}, 17), random_tensor({3, 5, 7}, 18)});
  }
}

TEST(OpGradients, Losses) {
  ops::Targets labels, smooth, soft;
  labels.labels = smooth.labels =
      Tensor::from<std::int64_t>(std::vector<std::int64_t>{6, 0, 3}, {3});
  smooth.smoothing = 0.1;
  auto shared = smooth;  // mixed with another class, unmixed, mixed with the same class
  shared.partner_labels = Tensor::from<std::int64_t>(std::vector<std::int64_t>{2, 5, 3}, {3});
  shared.label_share = Tensor::from<float>(std::vector<float>{0.3f, 1, 0.6f}, {3});
  soft.soft = random_tensor({3, 7}, 19, 0.5, 0.5);  // need not sum to 1: gradients must still hold
  auto normalised = soft;
  normalised.soft = soft.soft.clone();
  for (std::int64_t i = 0; i < 3; ++i) {
    double* row = normalised.soft.data<double>() + i * 7;
    double total = 0;
    for (int k = 0; k < 7; ++k) total += row[k];
    for (int k = 0; k < 7; ++k) row[k] /= total;
  }
  for (const ops::Targets& t : {labels, smooth, shared, soft, normalised}) {
    check_both(
        "cross_entropy",
        [&](Context& c, const Inputs& v) { return ops::cross_entropy(c, v[0], t).mean; },
        [&](Context& c, const Inputs& v) { return ops::reference::cross_entropy(c, v[0], t); },
        {random_tensor({3, 7}, 20, 3)});
    const Tensor weights = random_tensor({7}, 21, 1, 1.5);
    for (const ops::ClassWeighting& how :
         {ops::ClassWeighting{weights}, {{}, 2}, {weights, 0.5}, {weights, 3}}) {
      check_both(
          "weighted_cross_entropy",
          [&](Context& c, const Inputs& v) {
            return ops::weighted_cross_entropy(c, v[0], t, how).mean;
          },
          [&](Context& c, const Inputs& v) {
            return ops::reference::weighted_cross_entropy(c, v[0], t, how);
          },
          {random_tensor({3, 7}, 20, 3)});
    }
    for (const ops::BinaryOptions& how :
         {ops::BinaryOptions{}, {0.35, false}, {std::nullopt, true}}) {
      check_both(
          "binary_cross_entropy",
          [&](Context& c, const Inputs& v) {
            return ops::binary_cross_entropy(c, v[0], t, how).mean;
          },
          [&](Context& c, const Inputs& v) {
            return ops::reference::binary_cross_entropy(c, v[0], t, how);
          },
          {random_tensor({3, 7}, 20, 3)});
    }
  }
}

// Soft answers consist of several operations.
TEST(OpGradients, Distillation) {
  const Tensor teacher = random_tensor({3, 7}, 40, 3);
  for (const ops::DistillOptions& how :
       {ops::DistillOptions{}, {.hard = false}, {.hard = false, .temperature = 3, .mean = true}}) {
    for (const auto& distillation : {ops::distillation, ops::reference::distillation}) {
      check("distillation",
            [&](Context& c, const Inputs& v) { return distillation(c, v[0], teacher, how); },
            {random_tensor({3, 7}, 20, 3)});
    }
  }
}

TEST(OpGradients, LayerNorm) {
  for (std::int64_t channels : {2, 13, 64}) {
    auto on = [](auto op) {
      return Op([op](Context& c, const Inputs& v) { return op(c, v[0], v[1], v[2], 1e-5); });
    };
    check_both("layer_norm", on(ops::layer_norm), on(ops::reference::layer_norm),
               {random_tensor({2, 5, channels}, 21), random_tensor({channels}, 22, 0.5, 1),
                random_tensor({channels}, 23)});
  }
}

TEST(OpGradients, PatchEmbed) {
  Tensor images = random_tensor({2, 3, 4, 10}, 24);
  check_both(
      "patch_embed",
      [&](Context& c, const Inputs& v) {
        return ops::patch_embed(c, images, v[0], v[1], DType::kFloat64);
      },
      [&](Context& c, const Inputs& v) {
        return ops::reference::patch_embed(c, images, v[0], v[1]);
      },
      {random_tensor({5, 3, 2, 2}, 25), random_tensor({5}, 26)});
}

TEST(OpGradients, Tokens) {
  Tensor tokens = random_tensor({3, 5, 7}, 27);
  auto one = [](auto op) { return Op([op](Context& c, const Inputs& v) { return op(c, v[0]); }); };
  auto two = [](auto op) {
    return Op([op](Context& c, const Inputs& v) { return op(c, v[0], v[1]); });
  };
  check_both("add_positions", two(ops::add_positions), two(ops::reference::add_positions),
             {tokens, random_tensor({1, 5, 7}, 28)});
  check_both("prepend_tokens", two(ops::prepend_tokens), two(ops::reference::prepend_tokens),
             {tokens, random_tensor({1, 1, 7}, 29)});
  check_both("prepend_tokens", two(ops::prepend_tokens), two(ops::reference::prepend_tokens),
             {tokens, random_tensor({1, 3, 7}, 29)});
  check_both("first_token", one(ops::first_token), one(ops::reference::first_token), {tokens});
  check_both("mean_token", one(ops::mean_token), one(ops::reference::mean_token), {tokens});
}

TEST(OpGradients, ResamplePositions) {
  const auto resampled = [](ops::GridSize from, ops::GridSize to) {
    return Op(
        [=](Context& c, const Inputs& v) { return ops::resample_positions(c, v[0], from, to); });
  };
  check("resample_positions", resampled({5, 4}, {2, 7}), {random_tensor({1, 21, 3}, 34)});
  check("resample_positions", resampled({3, 3}, {2, 2}), {random_tensor({1, 9, 3}, 35)});
}

// x is the input of the norm and also bypasses it, so x already has a gradient when the norm's
// backward pass runs: once in shared memory, once in separate memory.
TEST(OpGradients, LayerNormAccumulatesIntoExistingGradient) {
  std::vector<Tensor> inputs = {random_tensor({2, 3, 8}, 30), random_tensor({8}, 31, 0.5, 1),
                                random_tensor({8}, 32)};
  check(
      "shared",
      [](Context& c, const Inputs& v) {
        return ops::residual_add(c, v[0], ops::layer_norm(c, v[0], v[1], v[2], 1e-5), {});
      },
      inputs);
  check(
      "own",
      [](Context& c, const Inputs& v) {
        Variable normed = ops::layer_norm(c, v[0], v[1], v[2], 1e-5);
        return ops::residual_add(c, ops::gelu(c, v[0]), normed, {});
      },
      inputs);
}

// A branch that ends in a linear layer. The norm's backward pass computes the gradient of its bias.
// Other operations also read the branch, before or after the sum.
TEST(OpGradients, ResidualLayerNormOfLinearBranch) {
  const std::vector<Tensor> inputs = {random_tensor({3, 4, 5}, 44), random_tensor({5, 5}, 45),
                                      random_tensor({5}, 46), random_tensor({5}, 47, 0.5, 1),
                                      random_tensor({5}, 48)};
  for (const auto& [before, after] : {std::pair(false, false), {true, false}, {false, true}}) {
    SCOPED_TRACE(cat(before ? "seen before" : "", after ? "seen after" : ""));
    Op op = [before = before, after = after](Context& c, const Inputs& v) {
      const Variable branch = ops::linear(c, v[0], v[1], v[2]);
      const Variable seen = before ? ops::gelu(c, branch) : Variable();
      ops::SumAndNorm r =
          ops::residual_layer_norm(c, v[0], branch, some_scales(), v[3], v[4], 1e-5);
      Variable out = ops::residual_add(c, r.sum, r.y, {});
      if (before) out = ops::residual_add(c, out, seen, {});
      if (after) out = ops::residual_add(c, out, ops::gelu(c, branch), {});
      return out;
    };
    check("residual_layer_norm of a linear layer", op, inputs);
  }
}

// The end of a branch and the norm after it. The sum is used again as the next residual, and the
// norm's backward pass computes the gradient of this branch.
TEST(OpGradients, ResidualLayerNorm) {
  std::vector<Tensor> inputs = {random_tensor({3, 4, 7}, 40), random_tensor({3, 4, 7}, 41),
                                random_tensor({7}, 42, 0.5, 1), random_tensor({7}, 43)};
  for (const Tensor& scale : {Tensor(), some_scales()}) {
    auto use = [](Context& c, const Variable& sum, const Variable& y) {
      return ops::residual_add(c, sum, ops::gelu(c, y), {});
    };
    Op fused = [&](Context& c, const Inputs& v) {
      ops::SumAndNorm r = ops::residual_layer_norm(c, v[0], v[1], scale, v[2], v[3], 1e-5);
      return use(c, r.sum, r.y);
    };
    Op apart = [&](Context& c, const Inputs& v) {
      Variable sum = ops::residual_add(c, v[0], v[1], scale);
      return use(c, sum, ops::layer_norm(c, sum, v[2], v[3], 1e-5));
    };
    Op only_sum = [&](Context& c, const Inputs& v) {
      Variable weight(inputs[2]), bias(inputs[3]);
      return ops::residual_layer_norm(c, v[0], v[1], scale, weight, bias, 1e-5).sum;
    };
    check("residual_layer_norm", fused, inputs);
    check("without the norm's output", only_sum, {inputs[0], inputs[1]});
    Context silent;
    Inputs values;
    for (const Tensor& t : inputs) values.emplace_back(t);
    EXPECT_TRUE(test::same_bits(fused(silent, values).value(), apart(silent, values).value()));
  }
}

// Gradcheck itself must be able to fail.
TEST(OpGradients, GradcheckDetectsBrokenBackward) {
  auto broken_by = [](double factor) {
    return Op([factor](Context& ctx, const Inputs& v) {
      Tensor y = v[0].value().clone();
      for (double& value : std::span(y.data<double>(), static_cast<std::size_t>(y.numel()))) {
        value = value * value;
      }
      return ctx.record(
          "square", y, {&v[0]}, [=, x = v[0].value(), dx = v[0].sink()](const Tensor& dy) {
            Tensor grad = Tensor::empty_like(x);
            for (std::int64_t i = 0; i < x.numel(); ++i) {
              grad.data<double>()[i] = factor * x.data<double>()[i] * dy.data<double>()[i];
            }
            dx->accumulate(grad);
          });
    });
  };
  std::vector<Tensor> inputs = {random_tensor({6}, 33)};
  EXPECT_LE(gradcheck(broken_by(2), inputs).max_relative_error, 1e-6);
  EXPECT_GT(gradcheck(broken_by(2.0001), inputs).max_relative_error, 1e-5);
  // An input that matters but gets no gradient.
  Op forgets = [](Context& ctx, const Inputs& v) {
    return ops::residual_add(ctx, v[0], Variable(v[0].value()), {});
  };
  EXPECT_GT(gradcheck(forgets, inputs).max_relative_error, 0.1);
}

}  // namespace
}  // namespace dtn
