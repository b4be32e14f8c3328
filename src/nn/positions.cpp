#include "dtn/nn/positions.h"

#include <cmath>

#include "dtn/nn/parameters.h"
#include "dtn/ops/linear.h"
#include "dtn/ops/primitive.h"
#include "ops/dispatch.h"

namespace dtn {

void init_local_positions(Tensor& value, std::uint64_t seed, const std::string& name) {
  std::int64_t heads = value.dim(0);
  fill_truncated_normal(value, 0.02, seed, name);
  auto k = static_cast<std::int64_t>(std::sqrt(static_cast<double>(heads)));
  double centre = static_cast<double>(k - 1) / 2;
  dispatch_real(value.dtype(), [&](auto zero) {
    using T = decltype(zero);
    for (std::int64_t j = 0; j < k; ++j) {
      for (std::int64_t i = 0; i < k; ++i) {
        T* row = value.data<T>() + (k * j + i) * 3;
        row[0] = static_cast<T>(2 * (static_cast<double>(j) - centre));
        row[1] = static_cast<T>(2 * (static_cast<double>(i) - centre));
        row[2] = T(-1);
      }
    }
  });
}

void init_line_positions(Tensor& value, std::uint64_t, const std::string&) {
  const std::int64_t heads = value.dim(0);
  const double middle = static_cast<double>(heads - 1) / 2;
  dispatch_real(value.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* row = value.data<T>();
    for (std::int64_t h = 0; h < heads; ++h, row += 3) {
      row[0] = static_cast<T>(2 * (static_cast<double>(h) - middle));
      row[1] = T(0);
      row[2] = T(-1);
    }
  });
}

Tensor offsets_to_cells(std::int64_t grid_h, std::int64_t grid_w, std::int64_t r, DType dtype,
                        Device device) {
  DTN_CHECK(r > 0 && grid_h >= r && grid_w >= r, "a grid of ", grid_h, " x ", grid_w,
            " tokens is smaller than one square of ", r, " x ", r);
  const std::int64_t rows = grid_h / r, columns = grid_w / r;
  Tensor offsets = Tensor::empty({grid_h * grid_w * rows * columns, 3}, dtype);
  const double middle = static_cast<double>(r - 1) / 2;
  dispatch_real(dtype, [&](auto zero) {
    using T = decltype(zero);
    T* at = offsets.data<T>();
    for (std::int64_t query = 0; query < grid_h * grid_w; ++query) {
      for (std::int64_t key = 0; key < rows * columns; ++key, at += 3) {
        const std::int64_t down = r * (key / columns) - query / grid_w;
        const std::int64_t right = r * (key % columns) - query % grid_w;
        const double dy = static_cast<double>(down) + middle;
        const double dx = static_cast<double>(right) + middle;
        at[0] = static_cast<T>(dx);
        at[1] = static_cast<T>(dy);
        at[2] = static_cast<T>(dx * dx + dy * dy);
      }
    }
  });
  return offsets.to(device);
}

Variable bias_from_offsets(Context& ctx, const Variable& weights, const Tensor& offsets,
                           std::int64_t queries) {
  return primitive::reshape(ctx, ops::linear(ctx, weights, Variable(offsets), {}),
                            {weights.dim(0), queries, offsets.dim(0) / queries});
}

Variable LearnedPositions::on(Context& ctx, const TokenGrid& grid) const {
  const PositionLayout& layout = *table_->positions;
  const Variable& table = table_->variable;
  const ops::GridSize own{layout.height, layout.width}, wanted{grid.height, grid.width};
  if (wanted == own) return table;
  const auto make = [&] {
    return ops::PositionResampling(own, wanted, table.dtype(), table.device(), filter_);
  };
  const TokenGrid key{grid.height, grid.width};
  return ops::resample_positions(ctx, table,
                                 resamplings_.at(key, table.dtype(), table.device(), make));
}

void fill_sinusoids(Tensor& table) {
  const std::int64_t rows = table.dim(1), channels = table.dim(2);
  dispatch_real(table.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* to = table.data<T>();
    for (std::int64_t p = 0; p < rows; ++p) {
      for (std::int64_t j = 0; j < channels; ++j) {
        const std::int64_t even = j - j % 2;
        const double exponent = static_cast<double>(even) / static_cast<double>(channels);
        const double angle = static_cast<double>(p) / std::pow(10000.0, exponent);
        to[p * channels + j] = static_cast<T>(j % 2 == 0 ? std::sin(angle) : std::cos(angle));
      }
    }
  });
}

}  // namespace dtn
