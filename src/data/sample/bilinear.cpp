#include "data/sample/bilinear.h"

#include <algorithm>
#include <cmath>

#include "data/sample/no_contraction.h"

DTN_NO_CONTRACTION

namespace dtn {
namespace {

// Writes a source row, resized to the columns of the axis: [columns, channels].
void resize_row(const Image& image, std::int64_t y, const BilinearAxis& columns, float* out) {
  const std::int64_t channels = image.channels;
  const std::uint8_t* row = image.pixels.data() + y * image.width * channels;
  for (std::size_t x = 0; x < columns.first.size(); ++x) {
    const std::uint8_t* a = row + columns.first[x] * channels;
    const std::uint8_t* b = row + columns.second[x] * channels;
    const float w = columns.weight[x];
    for (std::int64_t c = 0; c < channels; ++c) {
      const auto from = static_cast<float>(a[c]);
      *out++ = from + w * (static_cast<float>(b[c]) - from);
    }
  }
}

}  // namespace

BilinearAxis bilinear_axis(std::int64_t from, std::int64_t to) {
  BilinearAxis axis;
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  for (std::int64_t i = 0; i < to; ++i) {
    const double at = std::clamp((static_cast<double>(i) + 0.5) * scale - 0.5, 0.0,
                                 static_cast<double>(from - 1));
    const auto first = static_cast<std::int32_t>(at);
    axis.first.push_back(first);
    axis.second.push_back(std::min(first + 1, static_cast<std::int32_t>(from - 1)));
    axis.weight.push_back(static_cast<float>(at - first));
  }
  return axis;
}

void resize_bilinear(const Image& image, std::int64_t height, std::int64_t width, bool flip,
                     BilinearWorkspace& workspace, std::uint8_t* out) {
  BilinearAxis columns = bilinear_axis(image.width, width);
  if (flip) {
    std::ranges::reverse(columns.first);
    std::ranges::reverse(columns.second);
    std::ranges::reverse(columns.weight);
  }
  const BilinearAxis rows = bilinear_axis(image.height, height);
  const std::int64_t length = width * image.channels;
  std::int64_t held[2] = {-1, -1};  // source rows in the workspace
  for (auto& row : workspace.rows) row.resize(static_cast<std::size_t>(length));
  const auto row_at = [&](std::int64_t y, std::int64_t other) -> const float* {
    for (int k = 0; k < 2; ++k) {
      if (held[k] == y) return workspace.rows[k].data();
    }
    const int k = held[0] == other ? 1 : 0;
    resize_row(image, y, columns, workspace.rows[k].data());
    held[k] = y;
    return workspace.rows[k].data();
  };
  for (std::size_t y = 0; y < rows.first.size(); ++y) {
    const float* a = row_at(rows.first[y], rows.second[y]);
    const float* b = row_at(rows.second[y], rows.first[y]);
    const float w = rows.weight[y];
    for (std::int64_t i = 0; i < length; ++i) {
      *out++ = static_cast<std::uint8_t>(a[i] + w * (b[i] - a[i]) + 0.5f);
    }
  }
}

}  // namespace dtn
