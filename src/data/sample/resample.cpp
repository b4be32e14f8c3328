#include "data/sample/resample.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "data/sample/no_contraction.h"
#include "dtn/core/check.h"

DTN_NO_CONTRACTION

namespace dtn {
namespace {

using resample::Axis;
using resample::AxisKey;

// Weights are integers scaled by 2^22, which leaves 8 bits for the pixel and 2 for overshoot.
constexpr int kWeightBits = resample::kWeightBits;

double box(double x) { return -0.5 < x && x <= 0.5 ? 1.0 : 0.0; }

double bilinear(double x) {
  x = std::fabs(x);
  return x < 1.0 ? 1.0 - x : 0.0;
}

// Keys' cubic with a = -0.5, in Pillow's order of operations.
double bicubic(double x) {
  constexpr double a = -0.5;
  x = std::fabs(x);
  if (x < 1.0) return ((a + 2.0) * x - (a + 3.0)) * x * x + 1;
  if (x < 2.0) return (((x - 5) * x + 8) * x - 4) * a;
  return 0.0;
}

void compute_axis(const AxisKey& key, std::vector<double>& exact, Axis& axis) {
  const double scale = static_cast<double>(key.to - key.from) / key.out;
  const double filter_scale = std::max(scale, 1.0);
  const double support = key.filter.support * filter_scale;
  const double step = 1.0 / filter_scale;
  axis.key = key;
  axis.taps = static_cast<int>(std::ceil(support)) * 2 + 1;
  axis.spans.resize(static_cast<std::size_t>(key.count));
  axis.weights.assign(static_cast<std::size_t>(key.count) * axis.taps, 0);
  exact.resize(static_cast<std::size_t>(axis.taps));
  for (int i = 0; i < key.count; ++i) {
    const double center = key.from + (key.first + i + 0.5) * scale;
    const int begin = std::max(0, static_cast<int>(center - support + 0.5));
    const int end = std::min(key.in, static_cast<int>(center + support + 0.5));
    double sum = 0;
    for (int x = begin; x < end; ++x) {
      const double w = key.filter.weight((x - center + 0.5) * step);
      exact[static_cast<std::size_t>(x - begin)] = w;
      sum += w;
    }
    std::int32_t* weights = &axis.weights[static_cast<std::size_t>(i) * axis.taps];
    for (int k = 0; k < end - begin; ++k) {
      double w = exact[static_cast<std::size_t>(k)];
      if (sum != 0.0) w /= sum;
      weights[k] = static_cast<std::int32_t>((w < 0 ? -0.5 : 0.5) + w * (1 << kWeightBits));
    }
    axis.spans[static_cast<std::size_t>(i)] = {begin, end - begin};
  }
  axis.begin = axis.spans.front().begin;
  axis.end = axis.spans.back().begin + axis.spans.back().count;
}

// In the passes below, `source` holds the pixels that the axis depends on, from axis.begin to
// axis.end, and no others in that direction.

// Resizes each row to axis.key.count pixels, into `out` [source.height, count, c]. Sixteen rows at
// a time are transposed, so that a vector holds the same sample of all of them.
void horizontal_pass(const ImageView& source, const Axis& axis, ResampleWorkspace& s,
                     std::uint8_t* out) {
  constexpr int kLanes = resample::kLanes;
  const int in_samples = source.width * source.channels;
  const int out_samples = axis.key.count * source.channels;
  const int in_padded = (in_samples + kLanes - 1) / kLanes * kLanes;
  const int out_padded = (out_samples + kLanes - 1) / kLanes * kLanes;
  s.columns.resize(static_cast<std::size_t>(in_padded) * kLanes);  // [in_padded, kLanes]
  s.strip.resize(static_cast<std::size_t>(out_padded) * kLanes);   // [out_padded, kLanes]
  for (int y = 0; y < source.height; y += kLanes) {
    const int rows = std::min(kLanes, source.height - y);
    const std::uint8_t* from = source.pixels + y * source.stride;
    resample::transpose_in(from, source.stride, rows, in_samples, s.columns.data());
    resample::weigh_columns(s.columns.data(), axis.begin, source.channels, axis.spans.data(),
                            axis.weights.data(), axis.taps, axis.key.count, s.strip.data());
    resample::transpose_out(s.strip.data(), rows, out_samples,
                            out + static_cast<std::int64_t>(y) * out_samples, out_samples);
  }
}

// Resizes each column to axis.key.count pixels, into `out` [count, source.width, c].
void vertical_pass(const ImageView& source, const Axis& axis, std::uint8_t* out) {
  resample::weigh_rows(source.pixels, source.stride, axis.begin,
                       static_cast<std::int64_t>(source.width) * source.channels, axis.spans.data(),
                       axis.weights.data(), axis.taps, axis.key.count, out);
}

// Returns true if the columns are resized before the rows.
bool columns_first(const AxisKey& x, const AxisKey& y, Resample order) {
  const int less_wide = x.in - x.out, less_high = y.in - y.out;
  return order == Resample::kPillow13 && less_high > 0 && less_high > 2 * less_wide;
}

// Returns an image of this size in `memory`, for the result of the first pass.
ImageView make_room(int width, int height, int channels, std::vector<std::uint8_t>& memory) {
  const std::int64_t stride = std::int64_t{width} * channels;
  memory.resize(static_cast<std::size_t>(stride * height));
  return {memory.data(), width, height, channels, stride};
}

// `part` holds the source from column part_x and row part_y on.
void run(const ImageView& part, int part_x, int part_y, const AxisKey& x_key, const AxisKey& y_key,
         Resample order, ResampleWorkspace& s, Image& out) {
  out.reshape(x_key.count, y_key.count, part.channels);
  const Axis* x_axis = x_key.identity() ? nullptr : &s.axis(x_key);
  const Axis* y_axis = y_key.identity() ? nullptr : &s.axis(y_key);
  // Source columns and rows that the result depends on.
  const int x0 = x_axis ? x_axis->begin : x_key.first;
  const int x1 = x_axis ? x_axis->end : x_key.first + x_key.count;
  const int y0 = y_axis ? y_axis->begin : y_key.first;
  const int y1 = y_axis ? y_axis->end : y_key.first + y_key.count;
  const ImageView source = crop_view(part, x0 - part_x, y0 - part_y, x1 - x0, y1 - y0);

  if (!x_axis && !y_axis) {
    const std::size_t row = out.pixels.size() / static_cast<std::size_t>(out.height);
    for (int y = 0; y < out.height; ++y) {
      std::memcpy(&out.pixels[y * row], source.pixels + y * source.stride, row);
    }
  } else if (!y_axis) {
    horizontal_pass(source, *x_axis, s, out.pixels.data());
  } else if (!x_axis) {
    vertical_pass(source, *y_axis, out.pixels.data());
  } else if (columns_first(x_key, y_key, order)) {
    const ImageView half = make_room(source.width, out.height, part.channels, s.half);
    vertical_pass(source, *y_axis, s.half.data());
    horizontal_pass(half, *x_axis, s, out.pixels.data());
  } else {
    const ImageView half = make_room(out.width, source.height, part.channels, s.half);
    horizontal_pass(source, *x_axis, s, s.half.data());
    vertical_pass(half, *y_axis, out.pixels.data());
  }
}

void check_sizes(double in_width, double in_height, int channels, int width, int height) {
  DTN_CHECK(in_width > 0 && in_height > 0 && (channels == 1 || channels == 3),
            "cannot resize an image of ", in_width, " x ", in_height, " x ", channels);
  DTN_CHECK(width > 0 && height > 0, "cannot resize to ", width, " x ", height);
}

AxisKey whole_axis(double in, int out, int first, int end, const ResampleFilter& filter) {
  return {static_cast<int>(std::ceil(in)), out,   first, end - first, 0.0f,
          static_cast<float>(in),          filter};
}

void check_window(const ResizeWindow& t) {
  const ImageRegion& w = t.window;
  DTN_CHECK(
      0 <= w.x0 && w.x0 < w.x1 && w.x1 <= t.width && 0 <= w.y0 && w.y0 < w.y1 && w.y1 <= t.height,
      "window (", w.x0, ", ", w.y0, ", ", w.x1, ", ", w.y1, ") is not inside ", t.width, " x ",
      t.height);
}

}  // namespace

const ResampleFilter kBoxFilter{0.5, box};

ResampleFilter filter_of(Interpolation interpolation) {
  if (interpolation == Interpolation::kBilinear) return {1.0, bilinear};
  return {2.0, bicubic};
}

const Axis& ResampleWorkspace::axis(const AxisKey& key) {
  Axis* oldest = &axes_.front();
  for (Axis& a : axes_) {
    if (a.used != 0 && a.key == key) {
      a.used = ++clock_;
      return a;
    }
    if (a.used < oldest->used) oldest = &a;
  }
  compute_axis(key, exact_, *oldest);
  oldest->used = ++clock_;
  return *oldest;
}

ImageView view(const Image& image) {
  return {image.pixels.data(), image.width, image.height, image.channels,
          static_cast<std::int64_t>(image.width) * image.channels};
}

ImageView crop_view(const ImageView& image, int left, int top, int width, int height) {
  DTN_CHECK(left >= 0 && top >= 0 && width > 0 && height > 0 && left <= image.width - width &&
                top <= image.height - height,
            "crop of ", width, " x ", height, " at (", left, ", ", top, ") is not inside ",
            image.width, " x ", image.height);
  const std::uint8_t* start =
      image.pixels + top * image.stride + static_cast<std::int64_t>(left) * image.channels;
  return {start, width, height, image.channels, image.stride};
}

void resize(const ImageView& image, int width, int height, const Resampling& how,
            ResampleWorkspace& workspace, Image& out) {
  resize_window(image, {0, 0, image.width, image.height}, image.width, image.height,
                {width, height, {0, 0, width, height}}, how, workspace, out);
}

void resize_box(const ImageView& image, const ImageBox& box, int width, int height,
                const Resampling& how, ResampleWorkspace& workspace, Image& out) {
  check_sizes(image.width, image.height, image.channels, width, height);
  DTN_CHECK(0 <= box.x0 && box.x0 < box.x1 && box.x1 <= image.width && 0 <= box.y0 &&
                box.y0 < box.y1 && box.y1 <= image.height,
            "box (", box.x0, ", ", box.y0, ", ", box.x1, ", ", box.y1, ") is not inside ",
            image.width, " x ", image.height);
  // Pillow keeps the box in float32.
  const auto axis = [&](int in, int count, double from, double to) {
    return AxisKey{in,        count, 0, count, static_cast<float>(from), static_cast<float>(to),
                   how.filter};
  };
  run(image, 0, 0, axis(image.width, width, box.x0, box.x1),
      axis(image.height, height, box.y0, box.y1), how.order, workspace, out);
}

void resize_crop(const DecodedPart& part, const ImageRegion& crop, int width, int height,
                 const Resampling& how, ResampleWorkspace& workspace, Image& out) {
  const ImageRegion all = scaled_region(part.region, part.eighths);
  const ImageRegion own = scaled_region(crop, part.eighths);
  const double scale = part.eighths / 8.0;
  resize_box(crop_view(view(*part.pixels), own.x0 - all.x0, own.y0 - all.y0, own.x1 - own.x0,
                       own.y1 - own.y0),
             {crop.x0 * scale - own.x0, crop.y0 * scale - own.y0, crop.x1 * scale - own.x0,
              crop.y1 * scale - own.y0},
             width, height, how, workspace, out);
}

ImageRegion source_region(double source_width, double source_height, const ResizeWindow& target,
                          const ResampleFilter& filter, ResampleWorkspace& workspace) {
  check_sizes(source_width, source_height, 1, target.width, target.height);
  check_window(target);
  const ImageRegion& w = target.window;
  ImageRegion region = w;
  const AxisKey x = whole_axis(source_width, target.width, w.x0, w.x1, filter);
  const AxisKey y = whole_axis(source_height, target.height, w.y0, w.y1, filter);
  if (!x.identity()) {
    const Axis& axis = workspace.axis(x);
    region.x0 = axis.begin;
    region.x1 = axis.end;
  }
  if (!y.identity()) {
    const Axis& axis = workspace.axis(y);
    region.y0 = axis.begin;
    region.y1 = axis.end;
  }
  return region;
}

void resize_window(const ImageView& part, const ImageRegion& at, double source_width,
                   double source_height, const ResizeWindow& target, const Resampling& how,
                   ResampleWorkspace& workspace, Image& out) {
  check_sizes(source_width, source_height, part.channels, target.width, target.height);
  const ImageRegion need =
      source_region(source_width, source_height, target, how.filter, workspace);
  DTN_CHECK(at.x1 - at.x0 == part.width && at.y1 - at.y0 == part.height && at.x0 <= need.x0 &&
                at.y0 <= need.y0 && at.x1 >= need.x1 && at.y1 >= need.y1,
            "the decoded part of the source does not cover the window");
  const ImageRegion& w = target.window;
  run(part, at.x0, at.y0, whole_axis(source_width, target.width, w.x0, w.x1, how.filter),
      whole_axis(source_height, target.height, w.y0, w.y1, how.filter), how.order, workspace, out);
}

}  // namespace dtn
