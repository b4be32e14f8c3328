#include "data/sample/image_ops.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "data/sample/image_kernels.h"
#include "data/sample/no_contraction.h"
#include "dtn/core/check.h"

DTN_NO_CONTRACTION

namespace dtn {
namespace {

using image_kernels::kernels;

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
  const std::int64_t n = pixel_count(image);
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

float checked_factor(double factor) {
  DTN_CHECK(std::fabs(factor) <= 1e6, "blending factor ", factor, " is not in -1e6 .. 1e6");
  return static_cast<float>(factor);
}

std::int64_t sum_of_luma(const Image& image) {
  if (image.channels == 3) return kernels().sum_luma(image.pixels.data(), pixel_count(image));
  std::int64_t sum = 0;
  for (const std::uint8_t v : image.pixels) sum += v;
  return sum;
}

// Gaussian blur: P. Gwosdek et al., "Theoretical Foundations of Gaussian Convolution by Extended
// Box Filtering", SSVM 2011, with Pillow's mixture of float32, float64 and 24-bit fixed point.

constexpr int kPasses = 3;
constexpr int kMaxRadius = 1000;

// A box reaches `reach` whole pixels to both sides with weight `inner`, and one more pixel with
// weight `outer`. Weights are in units of 2^-24.
struct Box {
  int reach = 0;
  std::uint32_t inner = 0, outer = 0;
  int taps() const { return 2 * reach + 3; }
};

Box box_of(float radius) {
  const float variance = radius * radius / kPasses;
  const auto length = static_cast<float>(std::sqrt(12.0 * variance + 1.0));
  const auto whole = static_cast<float>(std::floor((length - 1.0) / 2.0));
  float part = (2 * whole + 1) * (whole * (whole + 1) - 3 * variance);
  part /= 6 * (variance - (whole + 1) * (whole + 1));
  const float reach = whole + part;
  Box box;
  box.reach = static_cast<int>(reach);
  box.inner = static_cast<std::uint32_t>(static_cast<float>(1u << 24) / (reach * 2 + 1));
  box.outer = ((1u << 24) - static_cast<std::uint32_t>(box.reach * 2 + 1) * box.inner) / 2;
  return box;
}

// Pointers to the taps of one output row.
using Taps = std::array<const std::uint8_t*, 2 * (kMaxRadius + 1) + 3>;

void blur_row(std::uint8_t* row, int width, int channels, const Box& box, std::uint8_t* line,
              Taps& taps) {
  const int margin = box.reach + 1;
  const std::size_t bytes = static_cast<std::size_t>(width) * channels;
  std::uint8_t* const middle = line + static_cast<std::size_t>(margin) * channels;
  for (int k = 0; k < box.taps(); ++k) taps[static_cast<std::size_t>(k)] = line + k * channels;
  for (int pass = 0; pass < kPasses; ++pass) {
    std::memcpy(middle, row, bytes);
    for (int k = 0; k < margin; ++k) {
      std::memcpy(line + k * channels, row, static_cast<std::size_t>(channels));
      std::memcpy(middle + bytes + k * channels, row + bytes - channels,
                  static_cast<std::size_t>(channels));
    }
    kernels().box(taps.data(), box.taps(), static_cast<std::int64_t>(bytes), box.inner, box.outer,
                  row);
  }
}

void blur_columns(const Image& image, const Box& box, Taps& taps, Image& out) {
  const std::int64_t stride = static_cast<std::int64_t>(image.width) * image.channels;
  for (int y = 0; y < image.height; ++y) {
    for (int k = 0; k < box.taps(); ++k)
      taps[static_cast<std::size_t>(k)] =
          image.pixels.data() + std::clamp(y + k - box.reach - 1, 0, image.height - 1) * stride;
    kernels().box(taps.data(), box.taps(), stride, box.inner, box.outer,
                  out.pixels.data() + y * stride);
  }
}

}  // namespace

void check_image(const Image& image) {
  DTN_CHECK(image.width > 0 && image.height > 0 && (image.channels == 1 || image.channels == 3) &&
                image.pixels.size() == static_cast<std::size_t>(byte_count(image)),
            "not an image: ", image.width, " x ", image.height, " x ", image.channels, " with ",
            image.pixels.size(), " bytes");
}

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
    tables[c] = equalizing_table(counts[c], pixel_count(image));
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

void adjust_brightness(Image& image, double factor) {
  check_image(image);
  kernels().blend_constant(image.pixels.data(), byte_count(image), 0, checked_factor(factor));
}

void adjust_contrast(Image& image, double factor) {
  check_image(image);
  const double mean =
      static_cast<double>(sum_of_luma(image)) / static_cast<double>(pixel_count(image));
  kernels().blend_constant(image.pixels.data(), byte_count(image), static_cast<int>(mean + 0.5),
                           checked_factor(factor));
}

void adjust_color(Image& image, double factor) {
  check_image(image);
  const float alpha = checked_factor(factor);
  if (image.channels == 3) kernels().blend_luma(image.pixels.data(), pixel_count(image), alpha);
}

void to_grayscale(Image& image) { adjust_color(image, 0); }

void adjust_sharpness(Image& image, double factor, ImageOpsWorkspace& workspace) {
  check_image(image);
  const float alpha = checked_factor(factor);
  if (image.width < 3 || image.height < 3) return;  // no pixel has eight neighbours
  workspace.image.reshape(image.width, image.height, image.channels);
  const int step = image.channels;
  const std::int64_t stride = static_cast<std::int64_t>(image.width) * step;
  const std::uint8_t* row = image.pixels.data();
  std::uint8_t* out = workspace.image.pixels.data();
  std::memcpy(out, row, static_cast<std::size_t>(stride));
  for (int y = 1; y < image.height - 1; ++y) {
    row += stride;
    out += stride;
    std::memcpy(out, row, static_cast<std::size_t>(step));
    kernels().blend_smooth(row - stride + step, row + step, row + stride + step, stride - 2 * step,
                           step, alpha, out + step);
    std::memcpy(out + stride - step, row + stride - step, static_cast<std::size_t>(step));
  }
  std::memcpy(out + stride, row + stride, static_cast<std::size_t>(stride));
  std::swap(image, workspace.image);
}

void adjust_hue(Image& image, double hue) {
  check_image(image);
  DTN_CHECK(-0.5 <= hue && hue <= 0.5, "hue ", hue, " is not in -0.5 .. 0.5");
  if (image.channels == 1) return;
  const auto turn = static_cast<std::uint8_t>(static_cast<int>(hue * 255));
  kernels().turn_hue(image.pixels.data(), pixel_count(image), turn);
}

void gaussian_blur(Image& image, double radius, ImageOpsWorkspace& workspace) {
  check_image(image);
  DTN_CHECK(0 <= radius && radius <= kMaxRadius, "radius ", radius, " is not in 0 .. ", kMaxRadius);
  const Box box = box_of(static_cast<float>(radius));
  Taps taps;
  workspace.line.resize(static_cast<std::size_t>(image.width + 2 * (box.reach + 1)) *
                        image.channels);
  const std::int64_t stride = static_cast<std::int64_t>(image.width) * image.channels;
  for (int y = 0; y < image.height; ++y)
    blur_row(image.pixels.data() + y * stride, image.width, image.channels, box,
             workspace.line.data(), taps);
  workspace.image.reshape(image.width, image.height, image.channels);
  for (int pass = 0; pass < kPasses; ++pass) {
    blur_columns(image, box, taps, workspace.image);
    std::swap(image, workspace.image);
  }
}

}  // namespace dtn
