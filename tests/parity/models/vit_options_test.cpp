// Compares models with the options of public checkpoints with the same models written from the
// formulas, in primitive operations and with every block in full.
#include "dtn/ops/primitive.h"
#include "dtn/ops/tokens.h"
#include "tiny_vit.h"

namespace dtn {
namespace {

using namespace dtn::primitive;

class Formulas {
 public:
  Formulas(Context& ctx, Classifier& model) : ctx_(ctx), model_(model), c_(model.config()) {}

  Variable logits(const Tensor& images) {
    Variable x = ops::reference::patch_embed(ctx_, images, p("patch_embed.proj.weight"),
                                             p("patch_embed.proj.bias"));
    const bool first = c_.pos_embed == PosEmbed::kAll;
    if (first) x = join(x);
    x = add(ctx_, x, p("pos_embed"));
    if (!first && c_.class_token_at == 0) x = join(x);
    x = normed("norm_pre", x);
    for (int i = 0; i < c_.depth; ++i) {
      if (!first && i > 0 && c_.class_token_at == i) x = join(x);
      const std::string block = cat("blocks.", i);
      x = add(ctx_, x, gained(block + ".ls1.gamma", attention(block, normed(block + ".norm1", x))));
      x = add(ctx_, x, gained(block + ".ls2.gamma", mlp(block, normed(block + ".norm2", x))));
    }
    x = normed("norm", x);
    if (c_.distilled) {
      return affine(ctx_, add(ctx_, linear("head", token(x, 0)), linear("head_dist", token(x, 1))),
                    0.5);
    }
    const Variable pooled = normed("fc_norm", pool(x));
    return c_.num_classes == 0 ? pooled : linear("head", pooled);
  }

 private:
  Variable p(const std::string& name) const {
    const Parameter* found = model_.parameters().find(name);
    return found ? found->variable : Variable();
  }

  Variable linear(const std::string& name, const Variable& x) {
    const Variable y = matmul(ctx_, x, permute(ctx_, p(name + ".weight"), {1, 0}));
    return p(name + ".bias").defined() ? add(ctx_, y, p(name + ".bias")) : y;
  }

  // LayerNorm over the last dimension. Returns x if the model has no norm of this name.
  Variable normed(const std::string& name, const Variable& x) {
    if (!p(name + ".weight").defined()) return x;
    const Variable centred = sub(ctx_, x, mean(ctx_, x, -1));
    const Variable variance = mean(ctx_, mul(ctx_, centred, centred), -1);
    const Variable y = div(ctx_, centred, primitive::sqrt(ctx_, affine(ctx_, variance, 1, c_.eps)));
    return add(ctx_, mul(ctx_, y, p(name + ".weight")), p(name + ".bias"));
  }

  Variable gained(const std::string& name, const Variable& branch) {
    return p(name).defined() ? mul(ctx_, branch, p(name)) : branch;
  }

  // Puts the class token, the distillation token and the registers before the patches.
  Variable join(Variable x) {
    for (const char* name : {"reg_token", "dist_token", "cls_token"}) {
      const Variable token = p(name);
      if (!token.defined()) continue;
      const Shape shape = {x.dim(0), token.dim(1), x.dim(2)};
      x = concat(ctx_, broadcast_to(ctx_, token, shape), x, 1);
    }
    return x;
  }

  Variable heads(const Variable& qkv, int part, const std::string& norm) {
    const std::int64_t b = qkv.dim(0), t = qkv.dim(1), c = c_.embed_dim, h = c_.num_heads;
    const Variable own = narrow(ctx_, qkv, 2, part * c, (part + 1) * c);
    return permute(ctx_, normed(norm, reshape(ctx_, own, {b, t, h, c / h})), {0, 2, 1, 3});
  }

  Variable attention(const std::string& block, const Variable& x) {
    const Variable qkv = linear(block + ".attn.qkv", x);
    const Variable q = heads(qkv, 0, block + ".attn.q_norm");
    const Variable k = heads(qkv, 1, block + ".attn.k_norm"), v = heads(qkv, 2, "");
    const double scale = 1 / std::sqrt(static_cast<double>(c_.embed_dim / c_.num_heads));
    const Variable scores = affine(ctx_, matmul(ctx_, q, permute(ctx_, k, {0, 1, 3, 2})), scale);
    const Variable mixed = permute(ctx_, matmul(ctx_, softmax(ctx_, scores), v), {0, 2, 1, 3});
    return linear(block + ".attn.proj", reshape(ctx_, mixed, x.shape()));
  }

  Variable sigmoid_gated(const Variable& x, const Variable& exponent) {
    return mul(ctx_, x, sigmoid(ctx_, exponent));
  }

  Variable activated(const Variable& x) {
    switch (c_.act) {
      case MlpActivation::kSilu: return sigmoid_gated(x, x);
      case MlpActivation::kQuickGelu: return sigmoid_gated(x, affine(ctx_, x, 1.702));
      case MlpActivation::kGeluTanh: {
        const Variable cubed = mul(ctx_, x, mul(ctx_, x, x));
        const Variable inner = add(ctx_, x, affine(ctx_, cubed, 0.044715));
        const Variable bent = tanh(ctx_, affine(ctx_, inner, std::sqrt(2 / M_PI)));
        return mul(ctx_, x, affine(ctx_, bent, 0.5, 0.5));
      }
      case MlpActivation::kRelu: return relu(ctx_, x);
      case MlpActivation::kGelu: break;
    }
    const Variable phi = affine(ctx_, erf(ctx_, affine(ctx_, x, std::sqrt(0.5))), 0.5, 0.5);
    return mul(ctx_, x, phi);
  }

  Variable mlp(const std::string& block, const Variable& x) {
    const Variable z = linear(block + ".mlp.fc1", x);
    if (c_.mlp == MlpKind::kPlain) return linear(block + ".mlp.fc2", activated(z));
    const std::int64_t half = c_.mlp_dim() / 2;
    const Variable gate = narrow(ctx_, z, 2, 0, half), value = narrow(ctx_, z, 2, half, 2 * half);
    return linear(block + ".mlp.fc2", mul(ctx_, activated(gate), value));
  }

  Variable token(const Variable& x, int i) {
    return reshape(ctx_, narrow(ctx_, x, 1, i, i + 1), {x.dim(0), x.dim(2)});
  }

  Variable pool(const Variable& x) {
    const std::int64_t patches = c_.num_patches(), all = x.dim(1);
    const Variable pooled = c_.pool == Pooling::kCls
                                ? narrow(ctx_, x, 1, 0, 1)
                                : mean(ctx_, narrow(ctx_, x, 1, all - patches, all), 1);
    return reshape(ctx_, pooled, {x.dim(0), x.dim(2)});
  }

  Context& ctx_;
  Classifier& model_;
  const ModelConfig& c_;
};

TEST(ModelOptions, MatchReference) {
  for (const ModelConfig& c : test::checkpoint_vits()) {
    SCOPED_TRACE(c.preset);
    Classifier model(c, 1, DType::kFloat64);
    test::perturb(model.parameters());
    const Tensor images = test::some_images(c, 3, DType::kFloat64);
    Context ctx = test::computing_in(DType::kFloat64);
    const auto got = test::doubles(test::logits_and_gradients(model, 3, DType::kFloat64, ctx));
    const auto gradients = test::doubles(model.parameters().gradients());

    Tape tape;
    ctx.tape = &tape;
    model.parameters().zero_gradients();
    const Variable logits = Formulas(ctx, model).logits(images);
    tape.backward(ops::cross_entropy(ctx, logits, test::some_labels(c, 3)).mean);
    const auto want = test::doubles(logits.value());
    EXPECT_LE(test::max_abs_difference(got, want), 1e-12 * test::max_abs(want));
    for (const Parameter& p : model.parameters().parameters()) {
      const auto whole = test::doubles(ParameterStore::view(model.parameters().gradients(), p));
      const test::Doubles part(gradients.begin() + p.offset,
                               gradients.begin() + p.offset + p.shape.numel());
      EXPECT_LE(test::max_abs_difference(part, whole), 1e-12 * (1 + test::max_abs(whole)))
          << p.name;
      // A shift of all keys does not change a softmax.
      if (!p.name.ends_with("k_norm.bias")) {
        EXPECT_GT(test::max_abs(whole), 1e-6) << p.name;
      }
    }
  }
}

// Each option changes the output of the model, so none is ignored.
TEST(ModelOptions, EachChangesOutput) {
  const auto output = [](const ModelConfig& c) {
    Classifier model(c, 1, DType::kFloat64);
    test::perturb(model.parameters());
    Context ctx = test::computing_in(DType::kFloat64);
    return test::doubles(model.forward(ctx, test::some_images(c, 2, DType::kFloat64)).value());
  };
  const ModelConfig plain = test::checkpoint_vits().front();
  const auto differs = [&](auto&& edit) {
    ModelConfig c = plain;
    edit(c);
    return output(c) != output(plain);
  };
  EXPECT_TRUE(differs([](ModelConfig& c) { c.layer_scale = std::nullopt; }));
  EXPECT_TRUE(differs([](ModelConfig& c) { c.act = MlpActivation::kGeluTanh; }));
  EXPECT_TRUE(differs([](ModelConfig& c) { c.act = MlpActivation::kQuickGelu; }));
  EXPECT_TRUE(differs([](ModelConfig& c) { c.act = MlpActivation::kSilu; }));
  EXPECT_TRUE(differs([](ModelConfig& c) { c.mlp = MlpKind::kSwigluPacked; }));
  EXPECT_TRUE(differs([](ModelConfig& c) { c.norm_pre = true; }));
  EXPECT_TRUE(differs([](ModelConfig& c) { c.patch_bias = false; }));
  EXPECT_TRUE(differs([](ModelConfig& c) { c.registers = 1; }));
  EXPECT_TRUE(differs([](ModelConfig& c) { c.qk_norm = true; }));
}

}  // namespace
}  // namespace dtn
