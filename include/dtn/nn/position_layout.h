// The layout of a table of positions: its entries and the grid to which they belong.
#pragma once

#include <cstdint>

namespace dtn {

// Form of a table of positions.
enum class PositionKind {
  kTokens,     // [1, prefix + h w, C]: one row per token, in raster order
  kSines,      // the same shape, computed by fill_sinusoids(); never interpolated
  kDistances,  // [H, h w]: LeViT's biases, by the absolute distance of query and key
  kOffsets,    // [(2 h - 1) (2 w - 1), H]: Swin's biases, by the signed offset inside a window
  kPairs,      // [H, h w, h w]: one entry per query token and key token
};

// A table of positions and its grid.
struct PositionLayout {
  PositionKind kind = PositionKind::kTokens;
  std::int64_t height = 0, width = 0;  // h, w
  std::int64_t prefix = 0;             // rows before the grid, which belong to prefix tokens
  bool operator==(const PositionLayout&) const = default;
};

}  // namespace dtn
