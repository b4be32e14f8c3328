// Resizes 8-bit images, equal to Pillow's `Image.resize` bit for bit: separable filters whose
// support widens when shrinking, 22-bit fixed-point weights, and two passes, with the result of the
// first rounded to 8 bits. Up to Pillow 12.3 the horizontal pass is the first. In 13.0 the vertical
// one is the first if, for a source of w x h pixels and a result of W x H,
//     h - H > 0 and h - H > 2 (w - W)
// (libImaging/Resample.c of Pillow 9.4 and 13.0.0 defines these numbers.)
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

// Pixels that are owned elsewhere: [height, width, channels], rows `stride` bytes apart.
struct ImageView {
  const std::uint8_t* pixels = nullptr;
  int width = 0, height = 0, channels = 0;
  std::int64_t stride = 0;
};
ImageView view(const Image& image);
// Returns the part of an image that starts at (left, top). It must lie inside.
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
// `Image.resize(size, filter, box)` does: the filter also reads pixels outside the box.
Image resize_box(const Image& image, double x0, double y0, double x1, double y1, int width,
                 int height, const Resampling& how);
struct ImageBox {
  double x0 = 0, y0 = 0, x1 = 0, y1 = 0;
};
void resize_box(const ImageView& image, const ImageBox& box, int width, int height,
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
                          Interpolation filter, ResampleWorkspace& workspace);

// `part` holds the columns and rows `at` of a source of source_width x source_height and must
// contain source_region(). `out` becomes the window.
void resize_window(const ImageView& part, const ImageRegion& at, double source_width,
                   double source_height, const ResizeWindow& target, const Resampling& how,
                   ResampleWorkspace& workspace, Image& out);

}  // namespace dtn
