// Shears, shifts and rotations.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <numbers>

#include "data/sample/image_kernels.h"
#include "data/sample/image_ops.h"
#include "data/sample/no_contraction.h"
#include "dtn/core/check.h"

DTN_NO_CONTRACTION

namespace dtn {
namespace {

using image_kernels::AffineRow;
using image_kernels::kernels;

void fill_pixels(std::uint8_t* out, int count, int channels, const FillColor& fill) {
  for (int i = 0; i < count; ++i, out += channels)
    std::memcpy(out, fill.data(), static_cast<std::size_t>(channels));
}

// Positions `first` up to `last` of a row that lie in [0, width) x [0, height). Positions along a
// row never turn back, so these are neighbours.
struct Inside {
  int first = 0, last = 0;
};

template <class Test>
Inside inside_of(int count, const Test& test) {
  Inside in{0, count};
  while (in.first < count && !test(in.first)) ++in.first;
  while (in.last > in.first && !test(in.last - 1)) --in.last;
  return in;
}

// Bilinear and bicubic sampling. Each position is computed independently.
void sample_smoothly(const Image& image, const AffineMatrix& m, bool cubic, const FillColor& fill,
                     ImageOpsWorkspace& ws) {
  const int width = image.width, height = image.height, channels = image.channels;
  const auto n = static_cast<std::size_t>(width);
  ws.source_x.resize(n);
  ws.source_y.resize(n);
  ws.columns.resize(n);
  ws.rows.resize(n);
  AffineRow row{image.pixels.data(),
                width,
                height,
                channels,
                ws.columns.data(),
                ws.rows.data(),
                ws.source_x.data(),
                ws.source_y.data()};
  std::uint8_t* out = ws.image.pixels.data();
  for (int y = 0; y < height; ++y, out += static_cast<std::int64_t>(width) * channels) {
    double *xs = ws.source_x.data(), *ys = ws.source_y.data();
    kernels().line(m.a, m.b * (y + 0.5), m.c, width, xs);
    kernels().line(m.d, m.e * (y + 0.5), m.f, width, ys);
    const Inside in = inside_of(
        width, [&](int i) { return 0 <= xs[i] && xs[i] < width && 0 <= ys[i] && ys[i] < height; });
    fill_pixels(out, in.first, channels, fill);
    row.count = in.last - in.first;
    row.dx = xs + in.first;
    row.dy = ys + in.first;
    row.between_columns = kernels().split(xs + in.first, row.count, cubic, ws.columns.data());
    row.between_rows = kernels().split(ys + in.first, row.count, cubic, ws.rows.data());
    (cubic ? kernels().cubic : kernels().linear)(row, out + in.first * channels);
    fill_pixels(out + in.last * channels, width - in.last, channels, fill);
  }
}

// Returns the pixel that contains a position, or -1.
int pixel_at(double position) {
  return 0 <= position && position < 0x1p31 ? static_cast<int>(position) : -1;
}

void copy_pixels(const Image& image, const ImageOpsWorkspace& ws, const FillColor& fill,
                 std::uint8_t* out) {
  const int channels = image.channels;
  for (int x = 0; x < image.width; ++x, out += channels) {
    const int column = ws.columns[static_cast<std::size_t>(x)];
    const int row = ws.rows[static_cast<std::size_t>(x)];
    const bool inside = 0 <= column && column < image.width && 0 <= row && row < image.height;
    const std::uint8_t* from =
        inside ? image.pixels.data() +
                     (static_cast<std::int64_t>(row) * image.width + column) * channels
               : fill.data();
    std::memcpy(out, from, static_cast<std::size_t>(channels));
  }
}

// Converts to 16.16 fixed point, wide enough not to overflow between the corners that were checked.
std::int64_t fixed(double v) { return static_cast<std::int64_t>(std::floor(v * 65536.0 + 0.5)); }

bool fits_fixed_point(const AffineMatrix& m, int width, int height) {
  for (const int x : {0, width})
    for (const int y : {0, height})
      if (!(std::fabs(x * m.a + y * m.b + m.c) < 32768.0 &&
            std::fabs(x * m.d + y * m.e + m.f) < 32768.0))
        return false;
  return true;
}

// Nearest-neighbour sampling. Like Pillow, this sums positions from pixel to pixel and from row to
// row: in fixed point if the image is rotated or sheared and small enough, otherwise in double.
template <class Position, class ToPixel>
void sample_nearest(const Image& image, Position x0, Position y0, const Position (&step)[4],
                    const ToPixel& to_pixel, const FillColor& fill, ImageOpsWorkspace& ws) {
  const auto n = static_cast<std::size_t>(image.width);
  ws.columns.resize(n);
  ws.rows.resize(n);
  std::uint8_t* out = ws.image.pixels.data();
  for (int y = 0; y < image.height; ++y, x0 += step[1], y0 += step[3]) {
    Position x = x0, v = y0;
    for (std::size_t i = 0; i < n; ++i, x += step[0], v += step[2]) {
      ws.columns[i] = to_pixel(x);
      ws.rows[i] = to_pixel(v);
    }
    copy_pixels(image, ws, fill, out + static_cast<std::int64_t>(y) * image.width * image.channels);
  }
}

void sample_nearest(const Image& image, const AffineMatrix& m, const FillColor& fill,
                    ImageOpsWorkspace& ws) {
  if (m.b == 0 && m.d == 0) {
    sample_nearest<double>(image, m.c + m.a * 0.5, m.f + m.e * 0.5, {m.a, 0, 0, m.e}, pixel_at,
                           fill, ws);
  } else if (fits_fixed_point(m, image.width, image.height)) {
    sample_nearest<std::int64_t>(
        image, fixed(m.c + m.a * 0.5 + m.b * 0.5), fixed(m.f + m.d * 0.5 + m.e * 0.5),
        {fixed(m.a), fixed(m.b), fixed(m.d), fixed(m.e)},
        [](std::int64_t v) { return static_cast<int>(v >> 16); }, fill, ws);
  } else {
    sample_nearest<double>(image, m.c + m.b * 0.5 + m.a * 0.5, m.f + m.e * 0.5 + m.d * 0.5,
                           {m.a, m.b, m.d, m.e}, pixel_at, fill, ws);
  }
}

// Python's round(v, 15): the nearest decimal, ties to even.
double round_to_15_digits(double v) {
  char text[40];
  const auto end = std::to_chars(text, text + sizeof text, v, std::chars_format::fixed, 15).ptr;
  double rounded = 0;
  std::from_chars(text, end, rounded);
  return rounded;
}

// Rotates by a half turn, or a square by a quarter turn. `turn` is counter-clockwise in degrees.
void rotate_exactly(Image& image, int turn, ImageOpsWorkspace& ws) {
  ws.image.reshape(image.width, image.height, image.channels);
  const int last_x = image.width - 1, last_y = image.height - 1, channels = image.channels;
  std::uint8_t* out = ws.image.pixels.data();
  for (int y = 0; y <= last_y; ++y)
    for (int x = 0; x <= last_x; ++x, out += channels) {
      const int from_x = turn == 180 ? last_x - x : turn == 90 ? last_x - y : y;
      const int from_y = turn == 180 ? last_y - y : turn == 90 ? x : last_y - x;
      const std::uint8_t* from =
          image.pixels.data() +
          (static_cast<std::int64_t>(from_y) * image.width + from_x) * channels;
      std::memcpy(out, from, static_cast<std::size_t>(channels));
    }
  std::swap(image, ws.image);
}

}  // namespace

AffineFilter affine_filter(Interpolation interpolation) {
  return interpolation == Interpolation::kBilinear ? AffineFilter::kBilinear
                                                   : AffineFilter::kBicubic;
}

FillColor fill_color(std::span<const float> mean) {
  DTN_CHECK(mean.size() == 1 || mean.size() == 3, "expects 1 or 3 means, not ", mean.size());
  FillColor fill;
  for (std::size_t c = 0; c < 3; ++c)
    fill[c] = static_cast<std::uint8_t>(
        std::clamp(std::nearbyint(255.0 * mean[mean.size() == 1 ? 0 : c]), 0.0, 255.0));
  return fill;
}

void transform_affine(Image& image, const AffineMatrix& m, AffineFilter filter,
                      const FillColor& fill, ImageOpsWorkspace& ws) {
  check_image(image);
  for (const double v : {m.a, m.b, m.c, m.d, m.e, m.f})
    DTN_CHECK(std::fabs(v) <= 1e6, "affine coefficient ", v, " is not in -1e6 .. 1e6");
  ws.image.reshape(image.width, image.height, image.channels);
  if (filter == AffineFilter::kNearest) {
    sample_nearest(image, m, fill, ws);
  } else {
    sample_smoothly(image, m, filter == AffineFilter::kBicubic, fill, ws);
  }
  std::swap(image, ws.image);
}

void rotate(Image& image, double degrees, AffineFilter filter, const FillColor& fill,
            ImageOpsWorkspace& ws) {
  check_image(image);
  DTN_CHECK(std::isfinite(degrees), "cannot rotate by ", degrees, " degrees");
  double angle = std::fmod(degrees, 360.0);
  if (angle < 0) angle += 360.0;
  if (angle == 0) return;
  if (angle == 180 || ((angle == 90 || angle == 270) && image.width == image.height))
    return rotate_exactly(image, static_cast<int>(angle), ws);
  const double radians = -(angle * (std::numbers::pi / 180));
  AffineMatrix m;
  m.a = round_to_15_digits(std::cos(radians));
  m.b = round_to_15_digits(std::sin(radians));
  m.d = round_to_15_digits(-std::sin(radians));
  m.e = round_to_15_digits(std::cos(radians));
  const double x = image.width / 2.0, y = image.height / 2.0;
  m.c = m.a * -x + m.b * -y + 0.0 + x;
  m.f = m.d * -x + m.e * -y + 0.0 + y;
  transform_affine(image, m, filter, fill, ws);
}

}  // namespace dtn
