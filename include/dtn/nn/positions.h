// Positions of tokens: learned positions and sinusoids for the tokens of a grid, and weights of
// relative positions with their initialization and the attention bias that they give.
#pragma once

#include <cstdint>
#include <string>

#include "dtn/autograd/context.h"
#include "dtn/core/tensor.h"
#include "dtn/nn/grid_cache.h"
#include "dtn/nn/parameters.h"
#include "dtn/ops/positions.h"

namespace dtn {

// Local initialization, Eq. 7 of Dynamic Token Normalization (Shao et al., ICLR 2022), of weights
// [H, 3] for the offsets (x, y, distance^2) from one token to another. With k = floor(sqrt(H)),
// head k j + i attends around the offset (j, i) - (k - 1) / 2. The remaining heads draw a truncated
// normal. A CustomInit (parameters.h), float32 or float64.
void init_local_positions(Tensor& value, std::uint64_t seed, const std::string& name);

// The same for sequences: head h attends around the offset (h - (H - 1) / 2, 0).
void init_line_positions(Tensor& value, std::uint64_t seed, const std::string& name);

// Offsets (dx, dy, dx^2 + dy^2) from the tokens of a grid to the cells of a coarser map,
// [queries keys, 3], query by query. Cell (u, v) covers r x r tokens and lies at their centre, row
// r u + (r - 1) / 2 and column r v + (r - 1) / 2. Rows and columns that r does not divide belong to
// no cell. float32 or float64.
Tensor offsets_to_cells(std::int64_t grid_h, std::int64_t grid_w, std::int64_t r, DType dtype,
                        Device device);

// Biases [H, queries, keys] for ops::grouped_attention: the products of weights [H, 3] with the
// offsets above (Eq. 6 of Dynamic Token Normalization). Both have the same type; so has the result.
Variable bias_from_offsets(Context&, const Variable& weights, const Tensor& offsets,
                           std::int64_t queries);

// Learned positions of the tokens of a grid, [1, prefix + h w, C], for images of several sizes.
class LearnedPositions {
 public:
  // The parameter tells its grid and prefix: PositionKind::kTokens.
  explicit LearnedPositions(const Parameter* table,
                            ops::PositionFilter filter = ops::PositionFilter::kDino)
      : table_(table), filter_(filter) {}

  // Positions on a grid, [1, prefix + height width, C]: the parameter itself on its own grid, else
  // ops::resample_positions() with the filter.
  Variable on(Context&, const TokenGrid& grid) const;

 private:
  const Parameter* table_;
  ops::PositionFilter filter_;
  mutable GridCache<ops::PositionResampling> resamplings_;  // to other grids
};

// Fixed sinusoidal positions (Vaswani et al., 2017). Fills table [1, T, C], float32 or float64 on
// the host. Row p, channel j is the sine (j even) or cosine (j odd) of
// p / 10000^(2 floor(j / 2) / C), computed in float64 and rounded once.
void fill_sinusoids(Tensor& table);

}  // namespace dtn
