#include "apps/export/onnx_vit.h"

#include <cmath>

#include "apps/export/onnx_norms.h"
#include "dtn/core/check.h"
#include "dtn/models/weights.h"

namespace dtn::onnx {
namespace {

// [rows, columns] -> [columns, rows]
Tensor transposed(const Tensor& matrix) {
  const std::int64_t rows = matrix.dim(0), columns = matrix.dim(1);
  Tensor result = Tensor::empty({columns, rows}, DType::kFloat32);
  const float* from = matrix.data<float>();
  float* to = result.data<float>();
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) to[c * rows + r] = from[r * columns + c];
  }
  return result;
}

class VitGraph {
 public:
  VitGraph(Graph& g, const ModelConfig& config, Weights weights)
      : g_(g), c_(config), weights_(std::move(weights)) {}

  Value logits(const Value& images) {
    Value x = embedded(images);
    for (int i = 0; i < c_.depth; ++i) {
      if (joins_at(i)) x = with_prefix(x);
      x = block(i, x);
    }
    if (prefix_ < c_.prefix_tokens()) x = with_prefix(x);
    if (c_.distilled) {
      const Value both =
          add(g_, head("head", pooled_token(x, 0)), head("head_dist", pooled_token(x, 1)));
      return scaled(g_, both, 0.5);
    }
    const Value features = c_.pool == Pooling::kCls ? pooled_token(x, 0) : pooled_mean(x);
    return c_.num_classes == 0 ? features : head("head", features);
  }

 private:
  std::int64_t tokens() const { return prefix_ + c_.num_patches(); }

  Value norm(const std::string& path, const Value& x) {
    g_.enter(path);
    return layer_norm(g_, weights_, path, c_.eps, x);
  }

  // x W^T + b, for any number of dimensions.
  Value linear(const std::string& path, const Value& x) {
    const std::string weight = path + ".weight", bias = path + ".bias";
    const Value y = matmul(g_, x, g_.tensor(weight + ".T", transposed(weights_.at(weight))));
    return weights_.find(bias) ? add(g_, y, g_.tensor(bias, weights_.at(bias))) : y;
  }

  // --- from images to tokens --------------------------------------------------------------------

  // Patches with their positions, with the prefix in front if it joins before the first block.
  Value embedded(const Value& images) {
    g_.enter("patch_embed");
    const std::string weight = "patch_embed.proj.weight", bias = "patch_embed.proj.bias";
    std::vector<Value> inputs = {images, g_.tensor(weight, weights_.at(weight))};
    if (weights_.find(bias)) inputs.push_back(g_.tensor(bias, weights_.at(bias)));
    const std::int64_t p = c_.patch_size;
    const Value patches =
        g_.node("Conv", inputs, {{"kernel_shape", Ints{p, p}}, {"strides", Ints{p, p}}});
    Value x = transpose(g_, reshape(g_, patches, {0, c_.embed_dim, c_.num_patches()}), {0, 2, 1});

    // If the table has rows for the prefix, prefix() adds them.
    const Tensor& table = weights_.at("pos_embed");
    const Tensor rows = table.reshape({table.dim(1), c_.embed_dim});
    x = add(g_, x, g_.tensor("pos_embed", rows.slice(rows.dim(0) - c_.num_patches(), rows.dim(0))));
    if (c_.prefix_tokens() > 0 && c_.grid_blocks() == 0) x = with_prefix(x);
    return c_.norm_pre ? norm("norm_pre", x) : x;
  }

  bool joins_at(int block) const {
    return prefix_ < c_.prefix_tokens() && block == c_.class_token_at;
  }

  // Class token, distillation token and registers, with their positions, [1, prefix, C].
  Tensor prefix() const {
    const std::int64_t width = c_.embed_dim;
    Tensor rows = Tensor::empty({c_.prefix_tokens(), width}, DType::kFloat32);
    std::int64_t at = 0;
    for (const char* name : {"cls_token", "dist_token", "reg_token"}) {
      const Tensor* part = weights_.find(name);
      if (!part) continue;
      Tensor target = rows.slice(at, at + part->dim(1));
      target.copy_from(*part);
      at += part->dim(1);
    }
    if (c_.pos_embed == PosEmbed::kAll) {
      const float* positions = weights_.at("pos_embed").data<float>();
      for (std::int64_t i = 0; i < at * width; ++i) rows.data<float>()[i] += positions[i];
    }
    return rows.reshape({1, at, width});
  }

  // Puts the prefix in front of the tokens of each of the N images.
  Value with_prefix(const Value& x) {
    g_.enter("prefix");
    const Value images =
        g_.node("Shape", {x}, {{"start", std::int64_t{0}}, {"end", std::int64_t{1}}});
    const Value shape = concat(g_, {images, g_.ints({c_.prefix_tokens(), c_.embed_dim})}, 0);
    const Value each = g_.node("Expand", {g_.tensor("prefix", prefix()), shape});
    prefix_ = c_.prefix_tokens();
    return concat(g_, {each, x}, 1);
  }

  // --- blocks -----------------------------------------------------------------------------------

  Value block(int index, const Value& x) {
    const std::string path = cat("blocks.", index);
    const Value mixed = attention(path + ".attn", index, block_norm(path + ".norm1", index, x));
    const Value y = add(g_, x, gained(path + ".ls1.gamma", mixed));
    const Value branch = mlp(path + ".mlp", block_norm(path + ".norm2", index, y));
    return add(g_, y, gained(path + ".ls2.gamma", branch));
  }

  Value block_norm(const std::string& path, int index, const Value& x) {
    if (index >= c_.norm_layers()) return norm(path, x);
    g_.enter(path);
    const NormPlace place{.path = path,
                          .channels = c_.embed_dim,
                          .heads = c_.num_heads,
                          .eps = c_.norm.eps.value_or(c_.eps),
                          .tokens = tokens(),
                          .grid = {c_.grid_h(), c_.grid_w()}};
    return normalized({g_, weights_, c_.norm.at_stage(0), place}, x);
  }

  Value gained(const std::string& name, const Value& branch) {
    const Tensor* gamma = weights_.find(name);
    return gamma ? mul(g_, branch, g_.tensor(name, *gamma)) : branch;
  }

  Value attention(const std::string& path, int index, const Value& x) {
    g_.enter(path);
    const std::int64_t heads = c_.num_heads, width = c_.embed_dim / heads;
    const Value split = reshape(g_, linear(path + ".qkv", x), {0, tokens(), 3, heads, width});
    const Value parts = transpose(g_, split, {2, 0, 3, 1, 4});  // [3, N, H, T, D]
    Value q = take(g_, parts, 0, 0), k = take(g_, parts, 0, 1);
    const Value v = take(g_, parts, 0, 2);
    if (c_.qk_norm) {
      q = layer_norm(g_, weights_, path + ".q_norm", c_.eps, q);
      k = layer_norm(g_, weights_, path + ".k_norm", c_.eps, k);
    }
    q = scaled(g_, q, 1 / std::sqrt(static_cast<double>(width)));
    Value scores = matmul(g_, q, transpose(g_, k, {0, 1, 3, 2}));  // [N, H, T, T]
    if (c_.mhsa_position && index < c_.grid_blocks()) {
      scores = add(g_, scores, positional_bias(path + ".pos_proj.weight"));
    }
    const Value mixed = transpose(g_, matmul(g_, softmax(g_, scores), v), {0, 2, 1, 3});
    return linear(path + ".proj", reshape(g_, mixed, {0, tokens(), c_.embed_dim}));
  }

  // a_d (dx^2 + dy^2) + a_x dx + a_y dy of each head, [H, T, T]: the sum of one part per axis.
  Value positional_bias(const std::string& name) {
    const std::int64_t heads = c_.num_heads, h = c_.grid_h(), w = c_.grid_w();
    const Value rows = g_.tensor(name + ".y", axis_bias(name, 1, h).reshape({heads, h, 1, h, 1}));
    const Value columns =
        g_.tensor(name + ".x", axis_bias(name, 0, w).reshape({heads, 1, w, 1, w}));
    return reshape(g_, add(g_, rows, columns), {heads, h * w, h * w});
  }

  // a_d (j - i)^2 + a (j - i), [H, n, n], along an axis of n tokens.
  Tensor axis_bias(const std::string& name, int axis, std::int64_t n) const {
    const std::int64_t heads = c_.num_heads;
    Tensor bias = Tensor::empty({heads, n, n}, DType::kFloat32);
    const float* weights = weights_.at(name).data<float>();
    float* to = bias.data<float>();
    for (std::int64_t e = 0; e < heads * n * n; ++e) {
      const float* a = weights + e / (n * n) * 3;
      const auto d = static_cast<float>(e % n - e / n % n);
      to[e] = a[2] * d * d + a[axis] * d;
    }
    return bias;
  }

  Value mlp(const std::string& path, const Value& x) {
    g_.enter(path);
    const Value z = linear(path + ".fc1", x);
    if (c_.mlp == MlpKind::kPlain) return linear(path + ".fc2", activated(g_, z, c_.act));
    const std::int64_t half = c_.mlp_dim() / 2;
    const Value gate = slice(g_, z, 2, 0, half), value = slice(g_, z, 2, half, 2 * half);
    return linear(path + ".fc2", mul(g_, activated(g_, gate, c_.act), value));
  }

  // --- from tokens to logits --------------------------------------------------------------------

  Value last_norm(const Value& x) { return norm(c_.fc_norm ? "fc_norm" : "norm", x); }

  Value pooled_token(const Value& x, std::int64_t index) {
    g_.enter("pool");
    return last_norm(take(g_, x, 1, index));
  }

  Value pooled_mean(const Value& x) {
    g_.enter("pool");
    const Value patches = prefix_ > 0 ? slice(g_, x, 1, prefix_, tokens()) : x;
    if (c_.fc_norm) return last_norm(mean(g_, patches, {1}, false));
    return mean(g_, last_norm(patches), {1}, false);
  }

  Value head(const std::string& path, const Value& x) {
    g_.enter(path);
    return linear(path, x);
  }

  Graph& g_;
  const ModelConfig& c_;
  Weights weights_;
  std::int64_t prefix_ = 0;  // prefix tokens that have joined so far
};

}  // namespace

Graph graph_of(Classifier& model, int opset, const std::string& output) {
  const ModelConfig& c = model.config();
  if (opset < kMinOpset || opset > kMaxOpset) {
    throw ConfigError(
        cat("--opset ", opset, " is not supported; use ", kMinOpset, " to ", kMaxOpset));
  }
  if (c.family != "vit") {
    throw ConfigError(cat("model.preset ", c.preset, " is of the family ", c.family,
                          "; only the family vit can be exported to ONNX"));
  }
  Graph g(opset);
  g.input("images", {c.channels, c.image_size.height, c.image_size.width});
  const Value result = VitGraph(g, c, Weights(named_values(model.parameters()))).logits("images");
  g.node("Identity", {result}, {}, output);
  g.output(output, {model.outputs()});
  return g;
}

}  // namespace dtn::onnx
