// Blur by zooming in while the shutter is open.
#include <algorithm>
#include <vector>

#include "data/corrupt/families.h"
#include "data/corrupt/filters.h"
#include "data/corrupt/kernels.h"
#include "data/sample/no_contraction.h"

DTN_NO_CONTRACTION

namespace dtn::corrupt {
namespace {

struct Zooms {
  double step;
  int count;
};

// Adds the image, zoomed into its middle, to `sum` [height, width, 3].
void add_zoomed(const std::vector<float>& image, const PlaneShape& shape, double factor,
                CorruptScratch& s, std::vector<float>& sum) {
  const ZoomAxis down = zoom_axis(shape.height, factor), across = zoom_axis(shape.width, factor);
  std::vector<std::int32_t> at;
  std::vector<float> share;
  for (std::size_t x = 0; x < across.at.size(); ++x) {
    for (int c = 0; c < 3; ++c) {
      at.push_back(3 * across.at[x] + c);
      share.push_back(across.share[x]);
    }
  }
  const std::int64_t row = shape.row(), used = 3ll * across.count;
  s.line.resize(static_cast<std::size_t>(used));
  for (int y = 0; y < shape.height; ++y) {
    const auto i = static_cast<std::size_t>(y);
    const float* above = image.data() + (down.first + down.at[i]) * row + 3ll * across.first;
    kernels().between(above, above + row, down.share[i], used, s.line.data());
    kernels().add_between(s.line.data(), at.data(), share.data(), 3, row, sum.data() + y * row);
  }
}

}  // namespace

void zoom_blur(const Image& image, const CorruptJob& job, Image& out) {
  constexpr Zooms kZooms[] = {{.01, 12}, {.01, 16}, {.02, 11}, {.02, 13}, {.03, 11}};
  const Zooms& zooms = by_severity(kZooms, job);
  const PlaneShape shape{image.height, image.width, 3};
  CorruptScratch& s = job.scratch;
  s.plane.assign(image.pixels.begin(), image.pixels.end());
  s.field = s.plane;
  const double step = (1 + zooms.step) - 1;  // as in numpy's arange
  for (int i = 0; i < zooms.count; ++i) add_zoomed(s.plane, shape, 1 + i * step, s, s.field);
  const auto images = static_cast<float>(zooms.count + 1);
  for (std::size_t i = 0; i < out.pixels.size(); ++i) {
    out.pixels[i] = static_cast<std::uint8_t>(std::min(s.field[i] / images, 255.0f));
  }
}

}  // namespace dtn::corrupt
