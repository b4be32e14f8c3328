// Operations that blend an image with a plainer one, and changes of hue.
#include <algorithm>
#include <cmath>
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
using image_ops::pixel_count;

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

struct Hsv {
  std::uint8_t h, s, v;
};

Hsv to_hsv(const std::uint8_t* rgb) {
  const int r = rgb[0], g = rgb[1], b = rgb[2];
  const int high = std::max({r, g, b}), low = std::min({r, g, b});
  const auto v = static_cast<std::uint8_t>(high);
  if (high == low) return {0, 0, v};
  const auto range = static_cast<float>(high - low);
  const float saturation = range / static_cast<float>(high);
  const float rc = static_cast<float>(high - r) / range;
  const float gc = static_cast<float>(high - g) / range;
  const float bc = static_cast<float>(high - b) / range;
  const auto hue = static_cast<float>(r == high   ? bc - gc
                                      : g == high ? 2.0 + rc - bc
                                                  : 4.0 + gc - rc);
  const double turns = hue / 6.0 + 1.0;  // 5/6 .. 11/6
  const auto turn = static_cast<float>(turns < 1.0 ? turns : turns - 1.0);
  return {static_cast<std::uint8_t>(turn * 255.0), static_cast<std::uint8_t>(saturation * 255.0),
          v};
}

void to_rgb(const Hsv& hsv, std::uint8_t* rgb) {
  const std::uint8_t v = hsv.v;
  if (hsv.s == 0) {
    rgb[0] = rgb[1] = rgb[2] = v;
    return;
  }
  const double sixth = static_cast<float>(hsv.h) * 6.0 / 255.0;
  const int sector = static_cast<int>(sixth);  // 0 .. 6
  const auto f = static_cast<float>(sixth - static_cast<float>(sector));
  const auto fs = static_cast<float>(static_cast<float>(hsv.s) / 255.0);
  const auto faded = [v](double by) {
    const double exact = v * (1.0 - by);
    const int whole = static_cast<int>(exact);
    return static_cast<std::uint8_t>(whole + (exact - whole >= 0.5));  // half up
  };
  const std::uint8_t p = faded(fs), q = faded(fs * f), t = faded(fs * (1.0 - f));
  const std::uint8_t colors[6][3] = {{v, t, p}, {q, v, p}, {p, v, t},
                                     {p, q, v}, {t, p, v}, {v, p, q}};
  std::memcpy(rgb, colors[sector % 6], 3);
}

}  // namespace

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
  image_ops::shape_like(image, workspace.image);
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
  for (std::uint8_t *p = image.pixels.data(), *end = p + image.pixels.size(); p != end; p += 3) {
    Hsv hsv = to_hsv(p);
    hsv.h = static_cast<std::uint8_t>(hsv.h + turn);
    to_rgb(hsv, p);
  }
}

}  // namespace dtn
