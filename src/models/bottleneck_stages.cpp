#include "models/bottleneck_stages.h"

#include <algorithm>

#include "dtn/ops/activation.h"
#include "dtn/ops/convolution.h"
#include "dtn/ops/tokens.h"

namespace dtn {
namespace {

Tokens max_pooled(Context& ctx, const Tokens& x) {
  const primitive::Pool2d pool{{3, 3}, {2, 2}, {1, 1}};
  const auto [height, width] =
      ops::convolved_grid({x.grid.height, x.grid.width}, pool.kernel, pool.stride, pool.padding);
  return {ops::max_pool(ctx, x.x, x.grid.height, x.grid.width, pool), {height, width}};
}

}  // namespace

Features BottleneckStages::forward(Context& ctx, const Fields& fields) {
  Tokens x = parts_.stem.forward(ctx, image_as_tokens(ctx, image_of(fields)));
  x.x = ops::relu(ctx, x.x);
  if (parts_.max_pool) x = max_pooled(ctx, x);
  Features features;
  for (const std::vector<Bottleneck>& stage : parts_.stages) {
    for (const Bottleneck& block : stage) x = block.run(ctx, x);
    features.push_back(x);
  }
  return features;
}

Variable BottleneckStages::pooled(Context& ctx, const Fields& fields) {
  return ops::mean_token(ctx, forward(ctx, fields).back().x);
}

std::vector<StageShape> BottleneckStages::stages() const {
  std::vector<StageShape> shapes;
  for (int s = 0; s < config_.stages(); ++s) shapes.push_back({config_.embed_dim.at(s), 4 << s});
  return shapes;
}

std::string BottleneckStages::size_problem(const ImageSize& size) const {
  return std::min(size.height, size.width) < 1 ? "an image has at least one pixel" : "";
}

std::vector<LayerInfo> BottleneckStages::layers() const {
  std::vector<LayerInfo> layers;
  for (const std::vector<Bottleneck>& stage : parts_.stages) {
    for (const Bottleneck& block : stage) layers.push_back(block.info());
  }
  return layers;
}

std::vector<ClassHead> BottleneckStages::make_heads(const Scope& scope, int classes) const {
  return {make_linear_head(scope / parts_.head, stages().back().channels, classes)};
}

}  // namespace dtn
