#include "models/levit_blocks.h"

#include <cmath>

#include "dtn/nn/windows.h"
#include "dtn/ops/activation.h"
#include "dtn/ops/convolution.h"
#include "dtn/ops/drop.h"

namespace dtn {
namespace {

constexpr std::int64_t kLevitKeys = 16;
constexpr std::int64_t kLevitValues = 2 * kLevitKeys, kShrinkValues = 4 * kLevitKeys;
constexpr std::int64_t kShrinkStride = 2;

const double kLevitScale = 1 / std::sqrt(static_cast<double>(kLevitKeys));

LinearNorm levit_linear(const Scope& scope, std::int64_t in, std::int64_t out,
                        const LevitNorms& norms, bool zero = false) {
  return {scope / "c", scope / "bn", in, {norms.batch, {out, 1, norms.eps}, zero}};
}

LinearNorm levit_site(const Scope& scope, std::int64_t in, std::int64_t out, const TokenGrid& grid,
                      const LevitNorms& norms, bool zero) {
  const std::int64_t heads = out / kChannelsOfSiteHead;
  const NormShape shape{out, heads, norms.site_eps, grid};
  return {scope / "c", scope / "bn", in, {norms.at_site, shape, zero}};
}

// Learned attention biases [H, h w]. An index, cached on the device of the last use, gives the
// column for each pair of a query and a key.
class LevitBias {
 public:
  // Keys are the tokens of `grid`. Queries are the tokens of every stride-th row and column.
  LevitBias(const Scope& scope, std::int64_t heads, const TokenGrid& grid, std::int64_t stride)
      : biases_(scope.weight("attention_biases", {heads, grid.tokens()}, InitKind::kZeros)),
        grid_(grid),
        stride_(stride),
        queries_(((grid.height + stride - 1) / stride) * ((grid.width + stride - 1) / stride)) {
    biases_->positions = {PositionKind::kDistances, grid.height, grid.width};
  }

  // [H, queries, keys]
  Variable values(Context& ctx) const {
    const Device device = biases_->variable.device();
    if (!index_.defined() || !(index_.device() == device)) {
      index_ = distance_bias_index(grid_.height, grid_.width, stride_, device);
    }
    return bias_from_columns(ctx, biases_->variable, index_, queries_);
  }

 private:
  Parameter* biases_;
  TokenGrid grid_;
  std::int64_t stride_, queries_;
  mutable Tensor index_;
};

class LevitMlp final : public LevitBlock {
 public:
  LevitMlp(const Scope& scope, std::int64_t channels, std::int64_t hidden, const TokenGrid& grid,
           const LevitNorms& norms)
      : path_(scope.path),
        grid_(grid),
        expand_(levit_linear(scope / "m" / "0", channels, hidden, norms)),
        contract_(levit_linear(scope / "m" / "2", hidden, channels, norms, true)) {}

  Variable forward(Context& ctx, const Variable& x) const override {
    const Variable hidden = ops::hardswish(ctx, expand_.forward(ctx, x, grid_));
    const Variable branch = contract_.forward(ctx, hidden, grid_);
    Variable y = ops::residual_add(ctx, x, branch, {});
    if (ctx.observer) {
      ctx.observer->branch(Observer::Branch::kMlp, branch.value(), grid_);
      ctx.observer->end_layer(y.value(), grid_);
    }
    return y;
  }
  TokenGrid grid() const override { return grid_; }
  void describe(std::vector<LayerInfo>& layers) const override {
    layers.back().paths.push_back(path_);
    layers.back().mlp = {path_};
  }

 private:
  std::string path_;
  TokenGrid grid_;
  LinearNorm expand_, contract_;
};

LayerInfo layer_of(const std::string& path, std::int64_t heads, const std::string& site,
                   std::int64_t channels, const Normalizer& norm) {
  return {.paths = {path},
          .heads = heads,
          .norms = {{path + site, channels / kChannelsOfSiteHead, &norm}},
          .attention = {path}};
}

class LevitAttention final : public LevitBlock {
 public:
  LevitAttention(const Scope& scope, std::int64_t channels, std::int64_t heads,
                 const TokenGrid& grid, const LevitNorms& norms)
      : path_(scope.path),
        channels_(channels),
        heads_(heads),
        grid_(grid),
        qkv_(levit_linear(scope / "m" / "qkv", channels, heads * kWidth, norms)),
        bias_(scope / "m", heads, grid, 1),
        projection_(levit_site(scope / "m" / "proj" / "1", heads * kLevitValues, channels, grid,
                               norms, true)) {}

  Variable forward(Context& ctx, const Variable& x) const override {
    const ops::GroupedAttention how{.heads = heads_,
                                    .q = {0, kWidth, kLevitKeys},
                                    .k = {kLevitKeys, kWidth, kLevitKeys},
                                    .v = {2 * kLevitKeys, kWidth, kLevitValues},
                                    .scale = kLevitScale,
                                    .groups = nullptr};
    const Variable qkv = qkv_.forward(ctx, x, grid_), bias = bias_.values(ctx);
    if (ctx.observer) {
      ctx.observer->begin_layer(x.value(), grid_);
      ctx.observer->attention({.queries = qkv.value(),
                               .keys = qkv.value(),
                               .bias = bias.value(),
                               .how = how,
                               .query_grid = grid_,
                               .key_grid = grid_});
    }
    const Variable mixed = ops::grouped_attention(ctx, qkv, qkv, bias, how);
    const Variable branch = projection_.forward_shown(ctx, ops::hardswish(ctx, mixed), grid_);
    if (ctx.observer) ctx.observer->branch(Observer::Branch::kAttention, branch.value(), grid_);
    return ops::residual_add(ctx, x, branch, {});
  }
  TokenGrid grid() const override { return grid_; }
  void describe(std::vector<LayerInfo>& layers) const override {
    layers.push_back(layer_of(path_, heads_, ".m.proj.1.bn", channels_, projection_.norm()));
  }

 private:
  static constexpr std::int64_t kWidth = 2 * kLevitKeys + kLevitValues;

  std::string path_;
  std::int64_t channels_, heads_;
  TokenGrid grid_;
  LinearNorm qkv_;
  LevitBias bias_;
  LinearNorm projection_;
};

class LevitShrink final : public LevitBlock {
 public:
  LevitShrink(const Scope& scope, std::int64_t in, std::int64_t out, const TokenGrid& grid,
              const LevitNorms& norms)
      : path_(scope.path),
        channels_(out),
        heads_(in / kLevitKeys),
        grid_(grid),
        keys_values_(levit_linear(scope / "kv", in, heads_ * kWidth, norms)),
        queries_(levit_linear(scope / "q" / "1", in, heads_ * kLevitKeys, norms)),
        bias_(scope, heads_, grid, kShrinkStride),
        projection_(levit_site(scope / "proj" / "1", heads_ * kShrinkValues, out, shrunk(grid),
                               norms, false)) {}

  Variable forward(Context& ctx, const Variable& x) const override {
    const Variable kept = ops::every_nth(ctx, x, grid_.height, grid_.width, kShrinkStride);
    const Variable q = queries_.forward(ctx, kept, grid());
    const Variable kv = keys_values_.forward(ctx, x, grid_);
    const Variable bias = bias_.values(ctx);
    const ops::GroupedAttention how{.heads = heads_,
                                    .q = {0, kLevitKeys, kLevitKeys},
                                    .k = {0, kWidth, kLevitKeys},
                                    .v = {kLevitKeys, kWidth, kShrinkValues},
                                    .scale = kLevitScale,
                                    .groups = nullptr};
    if (ctx.observer) {
      ctx.observer->begin_layer(x.value(), grid_);
      ctx.observer->attention({.queries = q.value(),
                               .keys = kv.value(),
                               .bias = bias.value(),
                               .how = how,
                               .query_grid = grid(),
                               .key_grid = grid_,
                               .key_step = 1.0 / kShrinkStride});
    }
    const Variable mixed = ops::grouped_attention(ctx, q, kv, bias, how);
    return projection_.forward_shown(ctx, ops::hardswish(ctx, mixed), grid());
  }
  TokenGrid grid() const override { return shrunk(grid_); }
  void describe(std::vector<LayerInfo>& layers) const override {
    layers.push_back(layer_of(path_, heads_, ".proj.1.bn", channels_, projection_.norm()));
  }

 private:
  static constexpr std::int64_t kWidth = kLevitKeys + kShrinkValues;

  std::string path_;
  std::int64_t channels_, heads_;
  TokenGrid grid_;  // of the keys
  LinearNorm keys_values_, queries_;
  LevitBias bias_;
  LinearNorm projection_;
};

}  // namespace

std::unique_ptr<LevitBlock> make_levit_mlp(const Scope& scope, std::int64_t channels,
                                           std::int64_t hidden, const TokenGrid& grid,
                                           const LevitNorms& norms) {
  return std::make_unique<LevitMlp>(scope, channels, hidden, grid, norms);
}

std::unique_ptr<LevitBlock> make_levit_attention(const Scope& scope, std::int64_t channels,
                                                 std::int64_t heads, const TokenGrid& grid,
                                                 const LevitNorms& norms) {
  return std::make_unique<LevitAttention>(scope, channels, heads, grid, norms);
}

std::unique_ptr<LevitBlock> make_levit_shrink(const Scope& scope, std::int64_t in, std::int64_t out,
                                              const TokenGrid& grid, const LevitNorms& norms) {
  return std::make_unique<LevitShrink>(scope, in, out, grid, norms);
}

TokenGrid shrunk(const TokenGrid& grid) { return {(grid.height + 1) / 2, (grid.width + 1) / 2}; }

}  // namespace dtn
