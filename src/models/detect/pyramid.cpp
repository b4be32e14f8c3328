#include "models/detect/pyramid.h"

#include "dtn/core/check.h"
#include "dtn/nn/initializers.h"
#include "dtn/ops/convolution.h"

namespace dtn {
namespace {

TokenConv make_conv(const Scope& scope, std::int64_t in, std::int64_t out, std::int64_t kernel,
                    std::int64_t stride = 1) {
  const std::int64_t taps = kernel * kernel;
  return {scope / "conv",
          in,
          out,
          {.kernel = kernel,
           .stride = stride,
           .padding = kernel / 2,
           .weight_init = xavier_uniform(in * taps, out * taps)}};
}

}  // namespace

FeaturePyramid::FeaturePyramid(const Scope& scope, const Options& o) : top_(o.top) {
  const Scope lateral = scope / "lateral_convs", conv = scope / "fpn_convs";
  const auto levels = static_cast<int>(o.channels.size());
  for (int i = 0; i < levels; ++i) {
    const std::int64_t in = o.channels[static_cast<std::size_t>(i)];
    lateral_.push_back(make_conv(lateral / i, in, o.width, 1));
    conv_.push_back(make_conv(conv / i, o.width, o.width, 3));
  }
  if (top_ == Top::kEverySecond) return;
  conv_.push_back(make_conv(conv / levels, o.channels.back(), o.width, 3, 2));
  conv_.push_back(make_conv(conv / (levels + 1), o.width, o.width, 3, 2));
}

Features FeaturePyramid::forward(Context& ctx, const Features& c) const {
  DTN_CHECK(c.size() == lateral_.size(), "a pyramid of ", lateral_.size(), " levels got ",
            c.size());
  Features sums(c.size());
  for (std::size_t i = c.size(); i-- > 0;) {
    sums[i] = lateral_[i].forward(ctx, c[i]);
    if (i + 1 == c.size()) continue;
    const TokenGrid &fine = sums[i].grid, &coarse = sums[i + 1].grid;
    sums[i].x = ops::upsample_add(ctx, sums[i].x, {fine.height, fine.width}, sums[i + 1].x,
                                  {coarse.height, coarse.width});
  }
  Features levels;
  for (std::size_t i = 0; i < c.size(); ++i) levels.push_back(conv_[i].forward(ctx, sums[i]));
  if (top_ == Top::kConvolutions) {
    levels.push_back(conv_[c.size()].forward(ctx, c.back()));
    levels.push_back(conv_[c.size() + 1].forward(ctx, levels.back()));
  } else {
    const Tokens& last = levels.back();
    const TokenGrid& grid = last.grid;
    levels.push_back({ops::every_nth(ctx, last.x, grid.height, grid.width, 2),
                      {(grid.height + 1) / 2, (grid.width + 1) / 2}});
  }
  return levels;
}

}  // namespace dtn
