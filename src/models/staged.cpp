#include "models/staged.h"

#include "dtn/nn/token_conv.h"
#include "dtn/ops/tokens.h"
#include "models/block_chain.h"

namespace dtn {

std::vector<StageShape> StagedTransformer::stages() const {
  std::vector<StageShape> shapes;
  for (int stage = 0; stage < config_.stages(); ++stage) {
    shapes.push_back({config_.embed_dim.at(stage), std::int64_t{config_.patch_size} << stage});
  }
  return shapes;
}

std::vector<LayerInfo> StagedTransformer::layers() const {
  std::vector<LayerInfo> layers;
  for (const Stage& stage : stages_) {
    for (const Block& block : stage.blocks) layers.push_back(block.info());
  }
  return layers;
}

std::string StagedTransformer::stage_grid_problem(const std::vector<TokenGrid>& grids) const {
  for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
    std::string problem = grid_limit_problem(grids[stage]);
    if (problem.empty()) problem = grid_problem(stages_[stage].blocks, grids[stage]);
    if (!problem.empty()) return cat("in stage ", stage + 1, ", ", problem);
  }
  return {};
}

Tokens StagedTransformer::run_blocks(Context& ctx, int stage, Tokens tokens,
                                     bool pooled_alone) const {
  return dtn::run_blocks(ctx, stages_[static_cast<std::size_t>(stage)].blocks, std::move(tokens),
                         {.first_tokens = pooled_alone ? 1 : 0});
}

void StagedTransformer::close(Context& ctx, int stage, Tokens& tokens) const {
  const auto& norm = stages_[static_cast<std::size_t>(stage)].norm;
  if (norm) tokens.x = norm->forward(ctx, tokens.x, tokens.arrangement());
}

Features StagedTransformer::forward(Context& ctx, const Fields& fields) {
  Features features;
  Tokens tokens = image_as_tokens(ctx, image_of(fields));
  for (int stage = 0; stage < config_.stages(); ++stage) {
    tokens = run_blocks(ctx, stage, enter(ctx, stage, tokens), false);
    close(ctx, stage, tokens);
    features.push_back(tokens);
    const auto& norm = stages_[static_cast<std::size_t>(stage)].feature_norm;
    if (norm) features.back().x = norm->forward(ctx, tokens.x, tokens.arrangement());
  }
  return features;
}

// The last norm works on single tokens, so only the pooled tokens need it.
Variable StagedTransformer::pooled(Context& ctx, const Fields& fields) {
  const int last = config_.stages() - 1;
  const bool of_class_token = config_.has_class_token();
  Tokens tokens = image_as_tokens(ctx, image_of(fields));
  for (int stage = 0; stage <= last; ++stage) {
    const bool pooled_alone = stage == last && of_class_token && ctx.mode.skip_unread;
    tokens = run_blocks(ctx, stage, enter(ctx, stage, tokens), pooled_alone);
    if (stage < last) close(ctx, stage, tokens);
  }
  if (of_class_token) {
    return stages_.back().norm->forward(ctx, ops::first_token(ctx, tokens.x), {1, 1});
  }
  close(ctx, last, tokens);
  return ops::mean_token(ctx, tokens.x);
}

}  // namespace dtn
