#include "dtn/nn/windows.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "dtn/ops/gather.h"
#include "dtn/ops/primitive.h"

namespace dtn {
namespace {

// Returns the part (0, 1 or 2) of a rolled row or column of n tokens that contains token i.
std::int64_t part_of(std::int64_t i, std::int64_t n, std::int64_t window, std::int64_t shift) {
  return i < n - window ? 0 : i < n - shift ? 1 : 2;
}

Tensor index_tensor(const std::vector<std::int64_t>& index, Device device) {
  return Tensor::from(index, {static_cast<std::int64_t>(index.size())}).to(device);
}

}  // namespace

std::shared_ptr<const ops::TokenGroups> shifted_windows(std::int64_t grid_h, std::int64_t grid_w,
                                                        std::int64_t window, std::int64_t shift,
                                                        Device device) {
  DTN_CHECK(window > 0 && grid_h > 0 && grid_w > 0 && grid_h % window == 0 && grid_w % window == 0,
            "a grid of ", grid_h, " x ", grid_w, " tokens is not divisible into windows of ",
            window, " x ", window);
  DTN_CHECK(0 <= shift && shift < window, "windows of ", window, " x ", window,
            " cannot be shifted by ", shift);
  const std::int64_t windows_w = grid_w / window, size = window * window;
  std::vector<std::int64_t> tokens, regions;
  for (std::int64_t i = 0; i < grid_h * grid_w; ++i) {
    const std::int64_t group = i / size, inside = i % size;
    const std::int64_t y = group / windows_w * window + inside / window;
    const std::int64_t x = group % windows_w * window + inside % window;
    tokens.push_back((y + shift) % grid_h * grid_w + (x + shift) % grid_w);
    if (shift == 0) continue;
    regions.push_back(3 * part_of(y, grid_h, window, shift) + part_of(x, grid_w, window, shift));
  }
  return ops::TokenGroups::make(tokens, regions, grid_h * grid_w / size, device);
}

std::int64_t window_side(std::int64_t grid_h, std::int64_t grid_w, std::int64_t window) {
  return std::min({grid_h, grid_w, window});
}

Tensor window_bias_index(std::int64_t window, std::int64_t table_window, Device device) {
  DTN_CHECK(window <= table_window, "a table of biases for windows of ", table_window, " x ",
            table_window, " tokens has none for windows of ", window, " x ", window);
  const std::int64_t size = window * window, last = table_window - 1;
  std::vector<std::int64_t> index;
  for (std::int64_t query = 0; query < size; ++query) {
    for (std::int64_t key = 0; key < size; ++key) {
      const std::int64_t dy = query / window - key / window, dx = query % window - key % window;
      index.push_back((dy + last) * (2 * table_window - 1) + dx + last);
    }
  }
  return index_tensor(index, device);
}

Tensor distance_bias_index(std::int64_t grid_h, std::int64_t grid_w, std::int64_t stride,
                           Device device) {
  DTN_CHECK(stride > 0, "the stride ", stride, " of queries must be positive");
  std::vector<std::int64_t> index;
  for (std::int64_t y = 0; y < grid_h; y += stride) {
    for (std::int64_t x = 0; x < grid_w; x += stride) {
      for (std::int64_t key = 0; key < grid_h * grid_w; ++key) {
        index.push_back(std::abs(y - key / grid_w) * grid_w + std::abs(x - key % grid_w));
      }
    }
  }
  return index_tensor(index, device);
}

Variable bias_from_rows(Context& ctx, const Variable& table, const Tensor& index,
                        std::int64_t queries) {
  const Variable rows = ops::take_rows(ctx, table, index);
  return primitive::reshape(ctx, primitive::permute(ctx, rows, {1, 0}),
                            {table.dim(1), queries, index.numel() / queries});
}

Variable bias_from_columns(Context& ctx, const Variable& table, const Tensor& index,
                           std::int64_t queries) {
  return primitive::reshape(ctx, primitive::gather(ctx, table, 1, index),
                            {table.dim(0), queries, index.numel() / queries});
}

}  // namespace dtn
