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

}  // namespace

LevitBias::LevitBias(const Scope& scope, std::int64_t heads, const TokenGrid& grid,
                     std::int64_t stride)
    : biases_(scope.weight("attention_biases", {heads, grid.tokens()}, InitKind::kZeros)),
      grid_(grid),
      stride_(stride),
      queries_(((grid.height + stride - 1) / stride) * ((grid.width + stride - 1) / stride)) {}

Variable LevitBias::values(Context& ctx) const {
  const Device device = biases_->variable.device();
  if (!index_.defined() || !(index_.device() == device)) {
    index_ = distance_bias_index(grid_.height, grid_.width, stride_, device);
  }
  return bias_from_columns(ctx, biases_->variable, index_, queries_);
}

LevitMlp::LevitMlp(const Scope& scope, std::int64_t channels, std::int64_t hidden,
                   const TokenGrid& grid, const LevitNorms& norms)
    : grid_(grid),
      expand_(levit_linear(scope / "m" / "0", channels, hidden, norms)),
      contract_(levit_linear(scope / "m" / "2", hidden, channels, norms, true)) {}

Variable LevitMlp::forward(Context& ctx, const Variable& x) const {
  const Variable hidden = ops::hardswish(ctx, expand_.forward(ctx, x, grid_));
  return ops::residual_add(ctx, x, contract_.forward(ctx, hidden, grid_), {});
}

LevitAttention::LevitAttention(const Scope& scope, std::int64_t channels, std::int64_t heads,
                               const TokenGrid& grid, const LevitNorms& norms)
    : heads_(heads),
      grid_(grid),
      qkv_(levit_linear(scope / "m" / "qkv", channels, heads * (2 * kLevitKeys + kLevitValues),
                        norms)),
      bias_(scope / "m", heads, grid, 1),
      projection_(levit_site(scope / "m" / "proj" / "1", heads * kLevitValues, channels, grid,
                             norms, true)) {}

Variable LevitAttention::forward(Context& ctx, const Variable& x) const {
  constexpr std::int64_t kWidth = 2 * kLevitKeys + kLevitValues;
  const Variable qkv = qkv_.forward(ctx, x, grid_);
  const Variable mixed = ops::grouped_attention(ctx, qkv, qkv, bias_.values(ctx),
                                                {.heads = heads_,
                                                 .q = {0, kWidth, kLevitKeys},
                                                 .k = {kLevitKeys, kWidth, kLevitKeys},
                                                 .v = {2 * kLevitKeys, kWidth, kLevitValues},
                                                 .scale = kLevitScale,
                                                 .groups = nullptr});
  const Variable branch = projection_.forward(ctx, ops::hardswish(ctx, mixed), grid_);
  return ops::residual_add(ctx, x, branch, {});
}

LevitShrink::LevitShrink(const Scope& scope, std::int64_t in, std::int64_t out,
                         const TokenGrid& grid, const LevitNorms& norms)
    : heads_(in / kLevitKeys),
      grid_(grid),
      keys_values_(levit_linear(scope / "kv", in, heads_ * (kLevitKeys + kShrinkValues), norms)),
      queries_(levit_linear(scope / "q" / "1", in, heads_ * kLevitKeys, norms)),
      bias_(scope, heads_, grid, kShrinkStride),
      projection_(levit_site(scope / "proj" / "1", heads_ * kShrinkValues, out, shrunk(grid), norms,
                             false)) {}

Variable LevitShrink::forward(Context& ctx, const Variable& x) const {
  constexpr std::int64_t kWidth = kLevitKeys + kShrinkValues;
  const Variable kept = ops::every_nth(ctx, x, grid_.height, grid_.width, kShrinkStride);
  const Variable q = queries_.forward(ctx, kept, grid());
  const Variable kv = keys_values_.forward(ctx, x, grid_);
  const Variable mixed = ops::grouped_attention(ctx, q, kv, bias_.values(ctx),
                                                {.heads = heads_,
                                                 .q = {0, kLevitKeys, kLevitKeys},
                                                 .k = {0, kWidth, kLevitKeys},
                                                 .v = {kLevitKeys, kWidth, kShrinkValues},
                                                 .scale = kLevitScale,
                                                 .groups = nullptr});
  return projection_.forward(ctx, ops::hardswish(ctx, mixed), grid());
}

}  // namespace dtn
