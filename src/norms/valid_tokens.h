// What a normalizer whose statistics go over tokens does with sequences of different lengths: it
// sees the tokens that count and no other, so that pads change nothing.
#pragma once

#include <vector>

#include "dtn/nn/tokens.h"
#include "dtn/ops/padding.h"
#include "ops/channel_norm.h"

namespace dtn {

// `normalize` of the tokens that count, [N, C], one sample after the other, with how many are each
// sample's; x [B, T, C] of a padded grid -> [B, T, C], 0 where nothing counts.
template <class Normalize>
Variable of_valid_tokens(Context& ctx, const Variable& x, const TokenGrid& grid,
                         Normalize&& normalize) {
  const std::vector<std::int64_t> lengths = ops::host_lengths(grid.lengths, x.dim(0), x.dim(1));
  const Variable packed = ops::pack_tokens(ctx, x, lengths);
  return ops::unpack_tokens(ctx, normalize(packed, lengths), lengths, x.dim(1));
}

// `normalize` of the samples as so many sets of rows, which is `how` it works on samples whose tokens
// all count.
template <class Normalize>
Variable of_each_sample(Context& ctx, const Variable& x, const TokenGrid& grid,
                        ops::ChannelNorm how, Normalize&& normalize) {
  if (!grid.padded()) return normalize(x, how);
  return of_valid_tokens(ctx, x, grid,
                         [&](const Variable& tokens, const std::vector<std::int64_t>& lengths) {
                           how.rows = lengths;
                           return normalize(tokens, how);
                         });
}

// The same for a normalizer that sees a batch as so many rows, whichever sample's they are.
template <class Normalize>
Variable of_valid_rows(Context& ctx, const Variable& x, const TokenGrid& grid,
                       Normalize&& normalize) {
  return of_valid_tokens(ctx, x, grid, [&](const Variable& rows, const std::vector<std::int64_t>&) {
    return normalize(rows);
  });
}

}  // namespace dtn
