// Operations that replace each value by another.
#include <algorithm>
#include <array>
#include <cstring>

#include "data/sample/image_kernels.h"
#include "data/sample/image_ops.h"
#include "data/sample/image_ops_common.h"
#include "data/sample/no_contraction.h"

DTN_NO_CONTRACTION

namespace dtn {
namespace {

using image_kernels::kernels;
using image_ops::byte_count;
using image_ops::check_image;

using Table = std::array<std::uint8_t, 256>;
using Histogram = std::array<std::uint32_t, 256>;

void look_up(Image& image, const std::array<Table, 3>& tables) {
  std::uint8_t* p = image.pixels.data();
  std::uint8_t* const end = p + image.pixels.size();
  if (image.channels == 1) {
    for (; p != end; ++p) *p = tables[0][*p];
  } else {
    for (; p != end; p += 3) {
      p[0] = tables[0][p[0]];
      p[1] = tables[1][p[1]];
      p[2] = tables[2][p[2]];
    }
  }
}

Table identity_table() {
  Table table;
  for (int v = 0; v < 256; ++v) table[static_cast<std::size_t>(v)] = static_cast<std::uint8_t>(v);
  return table;
}

Table stretched_table(int low, int high) {
  Table table = identity_table();
  if (high <= low) return table;
  const double scale = 255.0 / (high - low);
  const double offset = -low * scale;
  for (int v = 0; v < 256; ++v)
    table[static_cast<std::size_t>(v)] =
        static_cast<std::uint8_t>(std::clamp(static_cast<int>(v * scale + offset), 0, 255));
  return table;
}

// Neighbours are often equal, and counting one value twice in a row waits for memory. Pixels
// therefore alternate between two histograms.
template <int kChannels>
void count_values(const Image& image, std::array<Histogram, 3>& counts) {
  std::array<Histogram, kChannels> odd{};
  const std::uint8_t* p = image.pixels.data();
  const std::int64_t n = image_ops::pixel_count(image);
  std::int64_t i = 0;
  for (; i + 2 <= n; i += 2, p += 2 * kChannels) {
    for (std::size_t c = 0; c < kChannels; ++c) {
      ++counts[c][p[c]];
      ++odd[c][p[kChannels + c]];
    }
  }
  for (std::size_t c = 0; c < kChannels; ++c) {
    if (i < n) ++counts[c][p[c]];
    for (std::size_t v = 0; v < 256; ++v) counts[c][v] += odd[c][v];
  }
}

Table equalizing_table(const Histogram& counts, std::int64_t total) {
  Table table = identity_table();
  std::size_t last = 255;
  while (counts[last] == 0) --last;
  const std::int64_t step = (total - counts[last]) / 255;  // also 0 if only one value occurs
  if (step == 0) return table;
  std::int64_t sum = step / 2;
  for (std::size_t v = 0; v < 256; ++v) {
    table[v] = static_cast<std::uint8_t>(std::min<std::int64_t>(sum / step, 255));
    sum += counts[v];
  }
  return table;
}

}  // namespace

void auto_contrast(Image& image) {
  check_image(image);
  std::uint8_t low[3], high[3];
  kernels().extremes(image.pixels.data(), byte_count(image), low, high);
  std::array<Table, 3> tables;
  if (image.channels == 1) {
    tables[0] =
        stretched_table(std::min({low[0], low[1], low[2]}), std::max({high[0], high[1], high[2]}));
  } else {
    for (std::size_t c = 0; c < 3; ++c) tables[c] = stretched_table(low[c], high[c]);
  }
  look_up(image, tables);
}

void equalize(Image& image) {
  check_image(image);
  std::array<Histogram, 3> counts{};
  image.channels == 3 ? count_values<3>(image, counts) : count_values<1>(image, counts);
  std::array<Table, 3> tables;
  for (std::size_t c = 0; c < static_cast<std::size_t>(image.channels); ++c)
    tables[c] = equalizing_table(counts[c], image_ops::pixel_count(image));
  look_up(image, tables);
}

void invert(Image& image) { solarize(image, 0); }

void posterize(Image& image, int bits) {
  check_image(image);
  DTN_CHECK(0 <= bits && bits <= 8, "cannot keep ", bits, " of 8 bits");
  kernels().mask(image.pixels.data(), byte_count(image), 0xFF & (0xFF00 >> bits));
}

void solarize(Image& image, int threshold) {
  check_image(image);
  DTN_CHECK(0 <= threshold && threshold <= 256, "threshold ", threshold, " is not in 0 .. 256");
  if (threshold < 256) kernels().solarize(image.pixels.data(), byte_count(image), threshold);
}

void solarize_add(Image& image, int addend, int threshold) {
  check_image(image);
  DTN_CHECK(0 <= addend && addend <= 255 && 0 <= threshold && threshold <= 255, "cannot add ",
            addend, " below ", threshold, ": both must be in 0 .. 255");
  kernels().add_below(image.pixels.data(), byte_count(image), threshold, addend);
}

void flip_horizontally(Image& image, ImageOpsWorkspace& workspace) {
  check_image(image);
  const auto width = static_cast<std::size_t>(image.width);
  if (image.channels == 1) {
    for (std::uint8_t *p = image.pixels.data(), *end = p + image.pixels.size(); p != end;
         p += width)
      std::reverse(p, p + width);
    return;
  }
  workspace.line.resize(3 * width);
  std::uint8_t* row = image.pixels.data();
  for (int y = 0; y < image.height; ++y, row += 3 * width) {
    std::memcpy(workspace.line.data(), row, 3 * width);
    const std::uint8_t* from = workspace.line.data() + 3 * width;
    for (std::size_t x = 0; x < width; ++x) std::memcpy(row + 3 * x, from -= 3, 3);
  }
}

}  // namespace dtn
