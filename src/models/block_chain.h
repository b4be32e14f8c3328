// Blocks of a transformer, one after the other.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "dtn/nn/block.h"

namespace dtn {

struct BlockChain {
  // Number of blocks before join() adds a prefix to the tokens; unset: no prefix is added.
  std::optional<int> join_after{};
  std::function<void(Tokens&)> join{};
  // The number of first tokens that the caller reads; 0: all. The last block computes only those,
  // if it can and the prefix has joined.
  std::int64_t first_tokens = 0;
};

Tokens run_blocks(Context&, const std::vector<Block>& blocks, Tokens tokens,
                  const BlockChain& chain = {});

// Returns the reason why one of the blocks cannot process tokens of a grid, as the end of a
// sentence; empty: they can. The grid's prefix joins after `join_after` blocks.
std::string grid_problem(const std::vector<Block>& blocks, const TokenGrid& grid,
                         int join_after = 0);

std::vector<LayerInfo> layers_of(const std::vector<Block>& blocks);

}  // namespace dtn
