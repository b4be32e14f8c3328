// Resizes 8-bit images, equal to Pillow's `Image.resize` bit for bit: separable filters whose
// support widens when shrinking, 22-bit fixed-point weights, and two passes, with the result of the
// first rounded to 8 bits. Up to Pillow 12.3 the horizontal pass is the first. In 13.0 the vertical
// one is the first if, for a source of w x h pixels and a result of W x H,
//     h - H > 0 and h - H > 2 (w - W)
// (libImaging/Resample.c of Pillow 9.4 and 13.0.0 defines these numbers.)
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "data/sample/resample_kernels.h"
#include "dtn/config/data_config.h"
#include "dtn/io/image.h"

namespace dtn {

// A filter, as the weight of a distance from the centre. Beyond `support` the weight is 0.
struct ResampleFilter {
  double support;  // source pixels, if the image is not shrunk
  double (*weight)(double distance);
  bool operator==(const ResampleFilter&) const = default;
};
extern const ResampleFilter kBoxFilter;  // the mean of the pixels that an output pixel covers
ResampleFilter filter_of(Interpolation interpolation);

struct Resampling {
  Resampling(Interpolation how, Resample whose = Resample::kPillow13)
      : Resampling(filter_of(how), whose) {}
  Resampling(const ResampleFilter& how, Resample whose) : filter(how), order(whose) {}
  ResampleFilter filter;
  Resample order;
};

// Pixels that are owned elsewhere: [height, width, channels], rows `stride` bytes apart.
struct ImageView {
  const std::uint8_t* pixels = nullptr;
  int width = 0, height = 0, channels = 0;
  std::int64_t stride = 0;
};
ImageView view(const Image& image);
// Returns the part of an image that starts at (left, top). It must lie inside.
ImageView crop_view(const ImageView& image, int left, int top, int width, int height);

namespace resample {

// Resize of one axis: source pixels [from, to) of `in` become `out` pixels. Only those from `first`
// to first + count - 1 are needed.
struct AxisKey {
  int in = 0, out = 0, first = 0, count = 0;
  float from = 0, to = 0;
  ResampleFilter filter{};
  bool operator==(const AxisKey&) const = default;
  bool identity() const { return in == out && from == 0 && to == static_cast<float>(in); }
};

struct Axis {
  AxisKey key;
  int taps = 0;                       // stride of `weights`
  int begin = 0, end = 0;             // source pixels that the result depends on
  std::vector<Span> spans;            // [count], positions relative to the whole source
  std::vector<std::int32_t> weights;  // [count, taps]
  std::uint64_t used = 0;             // time of the last use, for the cache
};

}  // namespace resample

// Buffers and recently used filter weights. One per thread; after a few images nothing is
// allocated any more.
class ResampleWorkspace {
 public:
  const resample::Axis& axis(const resample::AxisKey& key);

  std::vector<std::uint8_t> columns, strip;  // sixteen rows, transposed
  std::vector<std::uint8_t> half;            // result of the first pass

 private:
  std::array<resample::Axis, 16> axes_;
  std::uint64_t clock_ = 0;
  std::vector<double> exact_;  // weights of one pixel before rounding
};

void resize(const ImageView& image, int width, int height, const Resampling& how,
            ResampleWorkspace& workspace, Image& out);

// Resizes the box [x0, x1) x [y0, y1) of the image (in pixels, may be fractional), as
// `Image.resize(size, filter, box)` does: the filter also reads pixels outside the box.
struct ImageBox {
  double x0 = 0, y0 = 0, x1 = 0, y1 = 0;
};
void resize_box(const ImageView& image, const ImageBox& box, int width, int height,
                const Resampling& how, ResampleWorkspace& workspace, Image& out);

// Pixels of an image decoded at eighths/8 of its size: those of scaled_region(region, eighths), see
// dtn/io/image.h.
struct DecodedPart {
  const Image* pixels = nullptr;
  ImageRegion region;  // of the image at its full size
  int eighths = 8;
};
// Resizes a crop of the image; `crop` has the coordinates of the full size, and must lie in the
// region. The filter reads no pixel that lies wholly outside the crop.
void resize_crop(const DecodedPart& part, const ImageRegion& crop, int width, int height,
                 const Resampling& how, ResampleWorkspace& workspace, Image& out);

// A resize of which only a window is computed: columns window.x0 .. x1-1 and rows window.y0 .. y1-1
// of the `width` x `height` result.
struct ResizeWindow {
  int width = 0, height = 0;
  ImageRegion window;
};

// Returns the part of a source of this size that the window depends on. The size may be fractional:
// then the last column or row of the source exists, but only that fraction of it counts.
ImageRegion source_region(double source_width, double source_height, const ResizeWindow& target,
                          const ResampleFilter& filter, ResampleWorkspace& workspace);

// `part` holds the columns and rows `at` of a source of source_width x source_height and must
// contain source_region(). `out` becomes the window.
void resize_window(const ImageView& part, const ImageRegion& at, double source_width,
                   double source_height, const ResizeWindow& target, const Resampling& how,
                   ResampleWorkspace& workspace, Image& out);

}  // namespace dtn
