#include "kernels/conv/upsample_join.h"

#include "dtn/ops/convolution.h"
#include "dtn/ops/tokens.h"
#include "ops/pointwise/modulation_parts.h"

namespace dtn::ops {
namespace {

using Grid = std::array<std::int64_t, 2>;

void check_joined(const Variable& coarse, const Grid& from, const Variable& fine, const Grid& to) {
  const auto is_map = [](const Variable& x, const Grid& grid) {
    return x.value().rank() == 3 && grid[0] > 0 && grid[1] > 0 && x.dim(1) == grid[0] * grid[1];
  };
  DTN_CHECK(is_map(coarse, from) && from[0] <= to[0] && from[1] <= to[1],
            "upsample_join: ", to_string(coarse.shape()), " on ", from[0], " x ", from[1],
            " cannot be upsampled to ", to[0], " x ", to[1]);
  if (!fine.defined()) return;
  DTN_CHECK(is_map(fine, to) && fine.dim(0) == coarse.dim(0) && fine.dtype() == coarse.dtype(),
            "upsample_join: ", to_string(fine.shape()), " ", name_of(fine.dtype()), " on ", to[0],
            " x ", to[1], " does not fit to ", to_string(coarse.shape()), " ",
            name_of(coarse.dtype()));
}

}  // namespace

Variable upsample_join(Context& ctx, const Variable& coarse, const Grid& coarse_grid,
                       const Variable& fine, const Grid& fine_grid) {
  check_joined(coarse, coarse_grid, fine, fine_grid);
  const std::int64_t batch = coarse.dim(0), tokens = fine_grid[0] * fine_grid[1];
  const std::int64_t channels = coarse.dim(2), beside = fine.defined() ? fine.dim(2) : 0;
  const UpsampleShape shape{coarse.dtype(), batch,          channels,      fine_grid[0],
                            fine_grid[1],   coarse_grid[0], coarse_grid[1]};
  Tensor y = Tensor::empty({batch, tokens, channels + beside}, coarse.dtype(), coarse.device());
  run_on(y.device(), UpsampleJoinForward{shape, beside, coarse.value().raw(),
                                         beside > 0 ? fine.value().raw() : nullptr, y.raw()});
  GradSink to_fine = beside > 0 ? fine.sink() : GradSink();
  const auto backward = [=, of_coarse = coarse.shape(),
                         to_coarse = coarse.sink()](const Tensor& dy) {
    Tensor dcoarse = empty_if(to_coarse, of_coarse, dy.dtype(), dy.device());
    Tensor dfine = empty_if(to_fine, {batch, tokens, beside}, dy.dtype(), dy.device());
    run_on(dy.device(),
           UpsampleJoinBackward{shape, beside, dy.raw(), raw_or_null(dcoarse), raw_or_null(dfine)});
    deliver(to_coarse, std::move(dcoarse));
    deliver(to_fine, std::move(dfine));
  };
  return beside > 0 ? ctx.record("upsample_join", y, {&coarse, &fine}, backward)
                    : ctx.record("upsample_join", y, {&coarse}, backward);
}

namespace reference {

Variable upsample_join(Context& ctx, const Variable& coarse, const Grid& coarse_grid,
                       const Variable& fine, const Grid& fine_grid) {
  const Shape shape{coarse.dim(0), fine_grid[0] * fine_grid[1], coarse.dim(2)};
  const Variable zeros(Tensor::zeros(shape, coarse.dtype(), coarse.device()));
  const Variable upsampled = upsample_add(ctx, zeros, fine_grid, coarse, coarse_grid);
  return fine.defined() ? primitive::concat(ctx, upsampled, fine, 2) : upsampled;
}

}  // namespace reference
}  // namespace dtn::ops
