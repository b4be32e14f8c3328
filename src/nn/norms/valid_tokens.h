// Sequences of different lengths for normalizers with statistics over tokens. The normalizer sees
// only valid tokens, so pads change nothing.
#pragma once

#include <vector>

#include "dtn/nn/tokens.h"
#include "dtn/ops/padding.h"
#include "ops/norm/channel_norm.h"

namespace dtn {

// Calls `normalize` with the valid tokens, [N, C], one sample after the other, and the length of
// each sample. x [B, T, C] of a padded grid -> [B, T, C], 0 at pads.
template <class Normalize>
Variable of_valid_tokens(Context& ctx, const Variable& x, const TokenGrid& grid,
                         Normalize&& normalize) {
  const std::vector<std::int64_t> lengths = ops::host_lengths(grid.lengths, x.dim(0), x.dim(1));
  const Variable packed = ops::pack_tokens(ctx, x, lengths);
  return ops::unpack_tokens(ctx, normalize(packed, lengths), lengths, x.dim(1));
}

// Calls `normalize` with one set of rows per sample. `how` holds its options for samples without
// pads.
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

// The same for a normalizer that treats a batch as rows, without regard to samples.
template <class Normalize>
Variable of_valid_rows(Context& ctx, const Variable& x, const TokenGrid& grid,
                       Normalize&& normalize) {
  return of_valid_tokens(ctx, x, grid, [&](const Variable& rows, const std::vector<std::int64_t>&) {
    return normalize(rows);
  });
}

}  // namespace dtn
