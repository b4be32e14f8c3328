#include "dtn/ops/positions.h"

#include <vector>

#include "dtn/ops/primitive.h"
#include "ops/host_constant.h"
#include "ops/pointwise/cubic_taps.h"

namespace dtn::ops {
namespace {

// Returns the matrix [to, from] of one axis.
Tensor resampling_matrix(std::int64_t from, std::int64_t to, DType dtype, Device device,
                         PositionFilter filter) {
  const bool dino = filter == PositionFilter::kDino;
  const double ratio = static_cast<double>(from) / (static_cast<double>(to) + (dino ? 0.1 : 0));
  std::vector<double> matrix(static_cast<std::size_t>(to * from));
  for (std::int64_t i = 0; i < to; ++i) {
    const double centre = (static_cast<double>(i) + 0.5) * ratio - 0.5;
    for (const Tap& tap :
         dino ? clamped_cubic_taps(centre, from) : clamped_linear_taps(centre, from)) {
      matrix[static_cast<std::size_t>(i * from + tap.index)] += tap.weight;
    }
  }
  return host_constant({to, from}, dtype, device, [&](std::int64_t element) {
    return matrix[static_cast<std::size_t>(element)];
  });
}

}  // namespace

PositionResampling::PositionResampling(const GridSize& from, const GridSize& to, DType dtype,
                                       Device device, PositionFilter filter)
    : from_(from), to_(to) {
  DTN_CHECK(from.height > 0 && from.width > 0 && to.height > 0 && to.width > 0,
            "cannot resample positions of ", from.height, " x ", from.width, " tokens to ",
            to.height, " x ", to.width);
  down_ = resampling_matrix(from.height, to.height, dtype, device, filter);
  along_ = resampling_matrix(from.width, to.width, dtype, device, filter);
}

Variable resample_positions(Context& ctx, const Variable& positions,
                            const PositionResampling& resampling) {
  namespace p = primitive;
  const GridSize &from = resampling.from(), &to = resampling.to();
  const std::int64_t prefix = positions.dim(1) - from.tokens(), channels = positions.dim(2);
  DTN_CHECK(positions.dim(0) == 1 && prefix >= 0, "positions ", to_string(positions.shape()),
            " are not [1, prefix + ", from.height, " x ", from.width, ", C]");
  const Variable grid = p::narrow(ctx, positions, 1, prefix, positions.dim(1));
  const Variable rows = p::matmul(ctx, Variable(resampling.down()),
                                  p::reshape(ctx, grid, {from.height, from.width * channels}));
  const Variable both = p::matmul(ctx, Variable(resampling.along()),
                                  p::reshape(ctx, rows, {to.height, from.width, channels}));
  Variable resampled = p::reshape(ctx, both, {1, to.tokens(), channels});
  if (prefix == 0) return resampled;
  return p::concat(ctx, p::narrow(ctx, positions, 1, 0, prefix), resampled, 1);
}

Variable resample_positions(Context& ctx, const Variable& positions, const GridSize& from,
                            const GridSize& to) {
  if (from == to) return positions;
  return resample_positions(ctx, positions,
                            PositionResampling(from, to, positions.dtype(), positions.device()));
}

}  // namespace dtn::ops
