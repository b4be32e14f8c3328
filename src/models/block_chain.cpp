#include "models/block_chain.h"

namespace dtn {

Tokens run_blocks(Context& ctx, const std::vector<Block>& blocks, Tokens tokens,
                  const BlockChain& chain) {
  ResidualStream stream(tokens.x);
  std::optional<int> join_after = chain.join_after;
  const auto join = [&] {
    tokens.x = stream.sum(ctx);
    chain.join(tokens);
    stream = ResidualStream(tokens.x);
    join_after.reset();
  };
  int done = 0;
  for (const Block& block : blocks) {
    if (join_after == done++) join();
    const std::int64_t count = chain.first_tokens;
    const bool alone =
        count > 0 && &block == &blocks.back() && !join_after && block.has_first_path();
    stream.run(ctx, [&block, alone, count, grid = tokens.arrangement()](Context& inner,
                                                                        ResidualStream& part) {
      alone ? block.forward_first(inner, part, grid, count) : block.forward(inner, part, grid);
    });
  }
  if (join_after) join();
  tokens.x = stream.sum(ctx);
  return tokens;
}

std::string grid_problem(const std::vector<Block>& blocks, const TokenGrid& grid, int join_after) {
  const TokenGrid alone{grid.height, grid.width};
  int index = 0;
  for (const Block& block : blocks) {
    std::string problem = block.grid_problem(index++ < join_after ? alone : grid);
    if (!problem.empty()) return problem;
  }
  return {};
}

std::vector<LayerInfo> layers_of(const std::vector<Block>& blocks) {
  std::vector<LayerInfo> layers;
  for (const Block& block : blocks) layers.push_back(block.info());
  return layers;
}

}  // namespace dtn
