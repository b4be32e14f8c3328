// Computes one model in several ways, which must agree.
#include <set>

#include "dtn/ops/attention.h"
#include "dtn/ops/drop.h"
#include "dtn/ops/linear.h"
#include "dtn/ops/norm.h"
#include "dtn/ops/tokens.h"
#include "tiny_vit.h"

namespace dtn {
namespace {

std::vector<ModelConfig> flavours() {
  return {test::paper_vit(),  test::deit_vit(),   test::mean_vit(),
          test::biased_vit(), test::prefix_vit(), test::wide_vit()};
}

std::vector<ModelConfig> all_flavours() {
  std::vector<ModelConfig> all = flavours();
  for (const ModelConfig& c : test::checkpoint_vits()) all.push_back(c);
  return all;
}

Context training(std::uint64_t first_sample = 0) {
  Context ctx = test::computing_in(DType::kFloat64);
  ctx.mode.training = true;
  ctx.rng.seed = 8;
  ctx.rng.step = 2;
  ctx.rng.first_sample = first_sample;
  return ctx;
}

TEST(ModelParity, CheckpointedBlocksGiveSameBits) {
  for (ModelConfig c : all_flavours()) {
    for (double dropout : {0.0, 0.2}) {
      c.drop_path = 0.4;
      c.dropout = dropout;
      for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
        Classifier model(c, 1);
        test::perturb(model.parameters());
        if (dtype == DType::kBFloat16) model.parameters().enable_bfloat16();
        Tensor saved = test::logits_and_gradients(model, 4, dtype, training(), false);
        Tensor gradients = model.parameters().gradients().clone();
        Tensor again = test::logits_and_gradients(model, 4, dtype, training(), true);
        EXPECT_TRUE(test::same_bits(saved, again)) << c.preset;
        EXPECT_TRUE(test::same_bits(gradients, model.parameters().gradients())) << c.preset;
        EXPECT_GT(test::max_abs(test::doubles(gradients)), 0);
      }
    }
  }
}

// Logits of a LayerNorm model from public operations, with every block in full.
Variable logits_of_whole_blocks(Context& ctx, Classifier& model, const Tensor& images) {
  const ModelConfig& c = model.config();
  auto p = [&](const std::string& name) {
    const Parameter* found = model.parameters().find(name);
    return found ? found->variable : Variable();
  };
  auto norm = [&](const std::string& name, const Variable& x) {
    return ops::layer_norm(ctx, x, p(name + ".weight"), p(name + ".bias"), c.eps);
  };
  auto linear = [&](const std::string& name, const Variable& x) {
    return ops::linear(ctx, x, p(name + ".weight"), p(name + ".bias"));
  };
  Variable x = ops::patch_embed(ctx, images, p("patch_embed.proj.weight"),
                                p("patch_embed.proj.bias"), images.dtype());
  auto join = [&] { x = ops::prepend_tokens(ctx, x, p("cls_token")); };
  const bool first = c.pos_embed == PosEmbed::kAll;
  if (first) join();
  x = ops::add_positions(ctx, x, p("pos_embed"));
  for (int i = 0; i < c.depth; ++i) {
    if (!first && i == c.class_token_at) join();
    const std::string block = cat("blocks.", i);
    const Variable qkv = linear(block + ".attn.qkv", norm(block + ".norm1", x));
    const Variable bias = p(block + ".attn.pos_proj.weight");
    const Variable mixed =
        bias.defined() ? ops::attention_on_grid(ctx, qkv, c.num_heads, bias, c.grid_h(), c.grid_w())
                       : ops::attention(ctx, qkv, c.num_heads);
    x = ops::linear_residual(ctx, mixed, p(block + ".attn.proj.weight"),
                             p(block + ".attn.proj.bias"), x, {});
    x = ops::mlp_residual(ctx, norm(block + ".norm2", x), p(block + ".mlp.fc1.weight"),
                          p(block + ".mlp.fc1.bias"), p(block + ".mlp.fc2.weight"),
                          p(block + ".mlp.fc2.bias"), x, {});
  }
  if (!first && c.class_token_at >= c.depth) join();
  return linear("head", norm("norm", ops::first_token(ctx, x)));
}

// The last block skips work that only other tokens than the class token need. The logits and all
// gradients are those of the full block.
TEST(ModelParity, ClassTokenOnlyLastBlockIsExact) {
  std::vector<ModelConfig> configs = {test::deit_vit(), test::biased_vit()};
  for (int at : {0, 1, 2, 3}) {
    configs.push_back(test::biased_vit());
    configs.back().mhsa_position = false;
    configs.back().class_token_at = at;
  }
  for (const ModelConfig& c : configs) {
    SCOPED_TRACE(cat(c.preset, ", class token at ", c.class_token_at));
    Classifier model(c, 1, DType::kFloat64);
    test::perturb(model.parameters());
    const Tensor images = test::some_images(c, 3, DType::kFloat64);
    Context ctx;
    ctx.mode.compute = DType::kFloat64;
    const Tensor evaluated = model.forward(ctx, images).value();
    const auto got = test::doubles(test::logits_and_gradients(model, 3, DType::kFloat64, ctx));
    const auto gradients = test::doubles(model.parameters().gradients());
    EXPECT_EQ(test::doubles(evaluated), got);

    Tape tape;
    ctx.tape = &tape;
    model.parameters().zero_gradients();
    const Variable logits = logits_of_whole_blocks(ctx, model, images);
    tape.backward(ops::cross_entropy(ctx, logits, test::some_labels(c, 3)).mean);
    const auto want = test::doubles(logits.value());
    EXPECT_LE(test::max_abs_difference(got, want), 1e-12 * test::max_abs(want));
    for (const Parameter& p : model.parameters().parameters()) {
      const auto whole = test::doubles(ParameterStore::view(model.parameters().gradients(), p));
      const test::Doubles part(gradients.begin() + p.offset,
                               gradients.begin() + p.offset + p.shape.numel());
      // A class token that joins after the last block does not depend on the image.
      if (c.class_token_at < c.depth) {
        EXPECT_GT(test::max_abs(whole), 0) << p.name;
      }
      EXPECT_LE(test::max_abs_difference(part, whole), 1e-12 * test::max_abs(whole)) << p.name;
    }
  }
}

// A global batch in one pass, or in micro-batches that know their position: the masks are the same,
// so the logits are the same up to rounding.
TEST(ModelParity, DropPathDoesNotDependOnMicroBatch) {
  for (ModelConfig c : all_flavours()) {
    c.drop_path = 0.5;
    c.dropout = 0.1;
    Classifier model(c, 1, DType::kFloat64);
    test::perturb(model.parameters());
    Tensor images = test::some_images(c, 6, DType::kFloat64);
    Context whole_ctx = training();
    auto whole = test::doubles(model.forward(whole_ctx, images).value());
    test::Doubles parts;
    for (auto [begin, end] : {std::pair{0, 1}, {1, 4}, {4, 6}}) {
      Context ctx = training(static_cast<std::uint64_t>(begin));
      auto part = test::doubles(model.forward(ctx, images.slice(begin, end)).value());
      parts.insert(parts.end(), part.begin(), part.end());
    }
    EXPECT_LE(test::max_abs_difference(whole, parts), 1e-12 * test::max_abs(whole)) << c.preset;
    Context silent = test::computing_in(DType::kFloat64);
    auto undropped = test::doubles(model.forward(silent, images).value());
    EXPECT_GT(test::max_abs_difference(whole, undropped), 1e-3) << "nothing was dropped";
  }
}

// Each branch of each block draws separate scales, and every step draws new ones.
TEST(ModelParity, DropPathScalesAreIndependentDraws) {
  Context ctx = training();
  auto draw = [&](std::uint32_t stream) {
    return test::doubles(ops::drop_path_scales(ctx, 256, 0.5, stream, DType::kFloat32));
  };
  auto a = draw(16), b = draw(17);
  EXPECT_NE(a, b);
  for (double s : a) EXPECT_TRUE(s == 0 || s == 2);
  ++ctx.rng.step;
  EXPECT_NE(draw(16), a);
  ctx.mode.training = false;
  EXPECT_FALSE(ops::drop_path_scales(ctx, 256, 0.5, 16, DType::kFloat32).defined());
}

// Copies of one image go through one block, where attention and MLP are dropped independently. The
// results are of four kinds, not two.
TEST(ModelParity, DropsBranchesOfBlockIndependently) {
  ModelConfig c = test::mean_vit();
  c.depth = 1;
  c.drop_path = 0.5;
  Classifier model(c, 1, DType::kFloat64);
  test::perturb(model.parameters());
  constexpr std::int64_t kBatch = 64;
  Tensor one = test::some_images(c, 1, DType::kFloat64);
  Tensor images =
      Tensor::empty({kBatch, c.channels, c.image_size.height, c.image_size.width}, one.dtype());
  for (std::int64_t i = 0; i < kBatch; ++i) images.slice(i, i + 1).copy_from(one);
  Context ctx = training();
  Tensor logits = model.forward(ctx, images).value();
  std::set<long> kinds;
  for (std::int64_t i = 0; i < kBatch; ++i) {
    kinds.insert(std::lround(1e6 * test::element(logits, i * c.num_classes)));
  }
  EXPECT_EQ(kinds.size(), 4u);
}

// Three blocks store about thirty rounded results before a logit. Their errors add up like a random
// walk, each at most a unit roundoff of its value. The bound is four standard deviations.
TEST(ModelParity, Bfloat16IsCloseToFloat32) {
  for (const ModelConfig& c : all_flavours()) {
    Classifier model(c, 1);
    test::perturb(model.parameters());
    model.parameters().enable_bfloat16();
    Context ctx;
    auto full = test::doubles(test::logits_and_gradients(model, 4, DType::kFloat32, ctx));
    auto full_gradients = test::doubles(model.parameters().gradients());
    auto low = test::doubles(test::logits_and_gradients(model, 4, DType::kBFloat16, ctx));
    auto low_gradients = test::doubles(model.parameters().gradients());
    double tolerance = 4 * std::sqrt(30.0) * test::unit_roundoff(DType::kBFloat16) / std::sqrt(3.0);
    EXPECT_LE(test::max_abs_difference(full, low), tolerance * test::max_abs(full)) << c.preset;
    EXPECT_LE(test::max_abs_difference(full_gradients, low_gradients),
              2 * tolerance * test::max_abs(full_gradients))
        << c.preset;
    EXPECT_NE(full, low);
  }
}

TEST(ModelParity, Float32IsCloseToFloat64) {
  for (const ModelConfig& c : all_flavours()) {
    Classifier model(c, 1), exact(c, 1, DType::kFloat64);
    test::perturb(model.parameters());
    for (Parameter& p : exact.parameters().parameters()) {
      Tensor value = p.variable.value();
      value.copy_from(test::as(model.parameters().find(p.name)->variable.value(), DType::kFloat64));
    }
    Context ctx;
    auto got = test::doubles(test::logits_and_gradients(model, 4, DType::kFloat32, ctx));
    auto want = test::doubles(test::logits_and_gradients(exact, 4, DType::kFloat64, ctx));
    double tolerance = 4 * 30 * test::unit_roundoff(DType::kFloat32);
    EXPECT_LE(test::max_abs_difference(got, want), tolerance * test::max_abs(want)) << c.preset;
    auto dgot = test::doubles(model.parameters().gradients());
    auto dwant = test::doubles(exact.parameters().gradients());
    EXPECT_LE(test::max_abs_difference(dgot, dwant), 2 * tolerance * test::max_abs(dwant))
        << c.preset;
  }
}

// Forward and backward give the same bits on any number of threads.
TEST(ModelParity, DoesNotDependOnThreads) {
  for (ModelConfig c : flavours()) {
    c.image_size = c.image_size == 15 ? ImageSize(35) : ImageSize(25, 45);  // 49 or 45 tokens
    c.embed_dim = 60;
    c.drop_path = 0.2;
    for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      Classifier model(c, 1);
      test::perturb(model.parameters(), 0.1);
      if (dtype == DType::kBFloat16) model.parameters().enable_bfloat16();
      for (bool is_training : {false, true}) {
        Tensor logits, gradients;
        for (int threads : test::kThreadCounts) {
          test::Threads scope(threads);
          Context ctx = training();
          ctx.mode.training = is_training;
          Tensor got = test::logits_and_gradients(model, 13, dtype, ctx);
          if (threads == 1) {
            logits = got;
            gradients = model.parameters().gradients().clone();
          }
          EXPECT_TRUE(test::same_bits(got, logits)) << c.preset << ", " << threads << " threads";
          EXPECT_TRUE(test::same_bits(model.parameters().gradients(), gradients))
              << c.preset << ", " << threads << " threads, " << name_of(dtype);
        }
      }
    }
  }
}

}  // namespace
}  // namespace dtn
