#include "dtn/ops/convolution.h"
#include "kernels/conv/upsample_join.h"

namespace dtn::ops {
namespace {

using Grid = std::array<std::int64_t, 2>;

void check(const Variable& fine, const Grid& to, const Variable& coarse, const Grid& from) {
  const auto fits = [](const Variable& x, const Grid& grid) {
    return x.value().rank() == 3 && grid[0] > 0 && grid[1] > 0 && x.dim(1) == grid[0] * grid[1];
  };
  DTN_CHECK(fits(fine, to) && fits(coarse, from) && fine.dim(0) == coarse.dim(0) &&
                fine.dim(2) == coarse.dim(2) && from[0] <= to[0] && from[1] <= to[1],
            "upsample_add: ", to_string(coarse.shape()), " on ", from[0], " x ", from[1],
            " does not fit onto ", to_string(fine.shape()), " on ", to[0], " x ", to[1]);
}

}  // namespace

Variable upsample_add(Context& ctx, const Variable& fine, const Grid& fine_grid,
                      const Variable& coarse, const Grid& coarse_grid) {
  check(fine, fine_grid, coarse, coarse_grid);
  const UpsampleShape shape{fine.dtype(), fine.dim(0),    fine.dim(2),   fine_grid[0],
                            fine_grid[1], coarse_grid[0], coarse_grid[1]};
  Tensor y = Tensor::empty_like(fine.value());
  run_on(y.device(), UpsampleAddForward{shape, fine.value().raw(), coarse.value().raw(), y.raw()});
  return ctx.record(
      "upsample_add", y, {&fine, &coarse},
      [=, of_coarse = coarse.shape(), to_fine = fine.sink(),
       to_coarse = coarse.sink()](const Tensor& dy) {
        if (to_coarse) {
          Tensor d = Tensor::empty(of_coarse, dy.dtype(), dy.device());
          run_on(dy.device(), UpsampleJoinBackward{shape, 0, dy.raw(), d.raw(), nullptr});
          to_coarse->accumulate(std::move(d));
        }
        if (to_fine) to_fine->accumulate(dy);
      });
}

namespace reference {
namespace {

// Index of the nearest coarse token for each fine one, along an axis.
Tensor nearest(std::int64_t fine, std::int64_t coarse, Device device) {
  std::vector<std::int64_t> index;
  for (std::int64_t i = 0; i < fine; ++i) index.push_back(i * coarse / fine);
  return Tensor::from(index, {fine}).to(device);
}

}  // namespace

Variable upsample_add(Context& ctx, const Variable& fine, const Grid& fine_grid,
                      const Variable& coarse, const Grid& coarse_grid) {
  using namespace primitive;
  const Device device = fine.device();
  Variable map =
      reshape(ctx, coarse, {coarse.dim(0), coarse_grid[0], coarse_grid[1], coarse.dim(2)});
  map = gather(ctx, map, 1, nearest(fine_grid[0], coarse_grid[0], device));
  map = gather(ctx, map, 2, nearest(fine_grid[1], coarse_grid[1], device));
  return cast(ctx, add(ctx, fine, reshape(ctx, map, fine.shape())), fine.dtype());
}

}  // namespace reference
}  // namespace dtn::ops
