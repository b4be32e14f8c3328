#include "dtn/models/vit.h"

#include <cmath>

#include "dtn/ops/drop.h"
#include "dtn/ops/linear.h"
#include "dtn/ops/tokens.h"
#include "models/block.h"

namespace dtn {
namespace {

constexpr std::uint32_t kPositionDropout = 1;  // random stream; blocks start at 16

void check_config(const ModelConfig& c) {
  auto require = [](bool ok, const auto&... message) {
    if (!ok) throw ConfigError(cat(message...));
  };
  require(c.patch_size > 0 && c.image_size % c.patch_size == 0, "model.image_size ", c.image_size,
          " is not a multiple of model.patch_size ", c.patch_size);
  require(c.num_heads > 0 && c.embed_dim % c.num_heads == 0, "model.embed_dim ", c.embed_dim,
          " is not a multiple of model.num_heads ", c.num_heads);
  require(c.norm_layers() <= c.depth, "model.norm.layers ", c.norm_layers(),
          " exceeds model.depth ", c.depth);
  require(!c.mhsa_position || c.grid_blocks() > 0,
          "model.mhsa_position: the class token joins before the first block");
}

// The projection of patches starts with the variance of PyTorch's convolution, 1 / (3 fan_in): at
// 16 x 16 x 3 that is the 0.02 of every other layer, and small patches keep their signal.
CustomInit patch_init(std::int64_t fan_in) {
  return [fan_in](Tensor& value, std::uint64_t seed, const std::string& name) {
    fill_truncated_normal(value, 1 / std::sqrt(3.0 * static_cast<double>(fan_in)), seed, name);
  };
}

}  // namespace

VisionTransformer::VisionTransformer(const ModelConfig& config, std::uint64_t seed, DType dtype,
                                     Device device)
    : VisionTransformer(config, Unallocated{}) {
  store_.allocate(dtype, device);
  store_.initialize(seed);
}

VisionTransformer::VisionTransformer(const ModelConfig& config, Unallocated) : config_(config) {
  check_config(config);
  std::int64_t c = config.embed_dim, p = config.patch_size;
  bool cls = config.has_class_token();
  std::int64_t positions = config.num_patches() + (cls && config.pos_embed == PosEmbed::kAll);
  if (cls) {
    class_token_ = store_.add("cls_token", {1, 1, c}, InitKind::kTruncatedNormal, Decay::kNo);
  }
  positions_ = store_.add("pos_embed", {1, positions, c}, InitKind::kTruncatedNormal, Decay::kNo);
  patch_weight_ = store_.add_custom("patch_embed.proj.weight", {c, config.channels, p, p},
                                    Decay::kYes, patch_init(config.channels * p * p));
  patch_bias_ = store_.add("patch_embed.proj.bias", {c}, InitKind::kZeros, Decay::kNo);
  for (int i = 0; i < config.depth; ++i) {
    parameters_before_.push_back(store_.parameters().size());
    blocks_.push_back(std::make_unique<TransformerBlock>(config, i, store_));
  }
  norm_ = make_layer_norm({c, config.num_heads, config.eps}, store_, "norm");
  head_weight_ =
      store_.add("head.weight", {config.num_classes, c}, InitKind::kTruncatedNormal, Decay::kYes);
  head_bias_ = store_.add("head.bias", {config.num_classes}, InitKind::kZeros, Decay::kNo);
}

VisionTransformer::~VisionTransformer() = default;

Variable VisionTransformer::forward(Context& ctx, const Tensor& images, DType dtype,
                                    bool checkpoint_blocks) {
  const ModelConfig& c = config_;
  DTN_CHECK(images.rank() == 4 && images.dim(1) == c.channels && images.dim(2) == c.image_size &&
                images.dim(3) == c.image_size,
            "images ", to_string(images.shape()), " are not [B, ", c.channels, ", ", c.image_size,
            ", ", c.image_size, "]");
  bool cls = c.has_class_token();
  TokenGrid grid{c.grid(), c.grid()};
  // [B, T, C], with T one larger once the class token has joined.
  Variable x = ops::patch_embed(ctx, images, patch_weight_->variable, patch_bias_->variable, dtype);
  bool joined = false;
  auto join = [&] {
    x = ops::prepend_class_token(ctx, x, class_token_->variable);
    grid = {1, x.dim(1)};  // no grid any more: a sequence
    joined = true;
  };
  if (cls && c.pos_embed == PosEmbed::kAll) join();
  x = ops::add_positions(ctx, x, positions_->variable);
  x = ops::dropout(ctx, x, c.dropout, kPositionDropout);
  ResidualStream stream(x);
  for (int i = 0; i < c.depth; ++i) {
    if (cls && !joined && i == c.class_token_at) {
      x = stream.settled(ctx);
      join();
      stream = ResidualStream(x);
    }
    const auto number = static_cast<std::size_t>(i);
    if (ctx.tape && ctx.on_whole_gradients) {
      ctx.tape->mark([reached = ctx.on_whole_gradients,
                      from = store_.decaying_from(parameters_before_[number])] { reached(from); });
    }
    const TransformerBlock& block = *blocks_[number];
    if (checkpoint_blocks) {
      stream.set(
          checkpoint(ctx, stream.settled(ctx), [&block, grid](Context& inner, const Variable& v) {
            ResidualStream part(v);
            block.forward(inner, part, grid);
            return part.settled(inner);
          }));
    } else {
      block.forward(ctx, stream, grid);
    }
  }
  x = stream.settled(ctx);
  if (cls && !joined) join();
  Variable pooled;
  if (cls) {  // the last norm works on single tokens, so only the one that is used needs it
    pooled = norm_->forward(ctx, ops::first_token(ctx, x), {1, 1});
  } else {
    pooled = ops::mean_token(ctx, norm_->forward(ctx, x, grid));
  }
  return ops::linear(ctx, pooled, head_weight_->variable, head_bias_->variable);
}

}  // namespace dtn
