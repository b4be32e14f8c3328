// Resizing of 8-bit images, equal to Pillow's `Image.resize` bit for bit: separable filters whose
// support widens when shrinking, 22-bit fixed-point weights, one pass after the other and the
// result of the first rounded to 8 bits. Up to Pillow 12.3 the horizontal pass is the first; in
// 13.0 the vertical one where h - H > 0 and h - H > 2 (w - W), of a source of w x h pixels and a
// result of W x H. (libImaging/Resample.c of Pillow 9.4 and 13.0.0 defines these numbers.)
#pragma once

#include <cstdint>
#include <memory>

#include "dtn/config/data_config.h"
#include "dtn/io/image.h"

namespace dtn {

struct Resampling {
  Resampling(Interpolation how, Resample whose = Resample::kPillow13) : filter(how), order(whose) {}
  Interpolation filter;
  Resample order;
};

// Pixels that belong to somebody else: [height, width, channels], rows `stride` bytes apart.
struct ImageView {
  const std::uint8_t* pixels = nullptr;
  int width = 0, height = 0, channels = 0;
  std::int64_t stride = 0;
};
ImageView view(const Image& image);
// The part of an image that starts at (left, top). It must lie inside.
ImageView crop_view(const ImageView& image, int left, int top, int width, int height);

// Buffers and recently used filter weights. One per thread; after a few images nothing is
// allocated any more.
class ResampleWorkspace {
 public:
  ResampleWorkspace();
  ~ResampleWorkspace();
  ResampleWorkspace(ResampleWorkspace&&) noexcept;
  ResampleWorkspace& operator=(ResampleWorkspace&&) noexcept;

  struct State;
  State& state() { return *state_; }

 private:
  std::unique_ptr<State> state_;
};

Image resize(const Image& image, int width, int height, const Resampling& how);
void resize(const ImageView& image, int width, int height, const Resampling& how,
            ResampleWorkspace& workspace, Image& out);

// Resizes the box [x0, x1) x [y0, y1) of the image (in pixels, may be fractional), as
// `Image.resize(size, filter, box)` does: the filter also sees pixels outside the box.
Image resize_box(const Image& image, double x0, double y0, double x1, double y1, int width,
                 int height, const Resampling& how);
struct ImageBox {
  double x0 = 0, y0 = 0, x1 = 0, y1 = 0;
};
void resize_box(const ImageView& image, const ImageBox& box, int width, int height,
                const Resampling& how, ResampleWorkspace& workspace, Image& out);

// A resize of which only a window of the result is wanted: columns window.x0 .. x1-1 and rows
// window.y0 .. y1-1 of the `width` x `height` result.
struct ResizeWindow {
  int width = 0, height = 0;
  ImageRegion window;
};

// The part of a source of this size that the window depends on. The size need not be whole: then
// the last column or row of the source is there, but only that much of it is to be seen.
ImageRegion source_region(double source_width, double source_height, const ResizeWindow& target,
                          Interpolation filter, ResampleWorkspace& workspace);

// `part` holds the columns and rows `at` of a source of source_width x source_height and must
// contain source_region(); `out` becomes the window.
void resize_window(const ImageView& part, const ImageRegion& at, double source_width,
                   double source_height, const ResizeWindow& target, const Resampling& how,
                   ResampleWorkspace& workspace, Image& out);

}  // namespace dtn
