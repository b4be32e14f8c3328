#include "apps/report/picture_figures.h"

#include <algorithm>
#include <optional>

#include "apps/report/figure_parts.h"
#include "core/format.h"
#include "data/sample/resample.h"
#include "dtn/core/check.h"
#include "dtn/io/image.h"
#include "io/image/image_encode.h"
#include "plot/text.h"

namespace dtn {

using namespace drawing;

namespace {

constexpr double kCaptionHeight = 54, kGap = 10;

struct Picture {
  std::int64_t step;
  Image image;
};

std::optional<Image> decoded(const std::string& png) {
  try {
    return decode_image(std::as_bytes(std::span(png)), "samples", {}, ColorMode::kAsStored);
  } catch (const DataError&) {
    return std::nullopt;
  }
}

std::string png_of(const Image& image) {
  std::vector<std::byte> bytes;
  encode_png(image, bytes);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The picture with at most `width` columns.
Image reduced(const Image& image, int width) {
  if (image.width <= width) return image;
  const int height =
      std::max(1, static_cast<int>(std::int64_t{image.height} * width / image.width));
  Image small;
  ResampleWorkspace workspace;
  resize(view(image), width, height, Resampling(kBoxFilter, Resample::kPillow13), workspace, small);
  return small;
}

plot::Figure last_picture(const Picture& last) {
  const double room = kFigureWidth - 2 * kFigureSide;
  const double width = std::clamp(2.0 * last.image.width, std::min(300.0, room), room);
  const double height = last.image.height * width / last.image.width;
  const std::string title = "Samples";
  plot::Canvas canvas(kFigureWidth, height + kCaptionHeight + 6);
  draw_head(canvas, title, cat("drawn with the weights after step ", last.step), {});
  canvas.image({kFigureSide, kCaptionHeight, width, height}, png_of(last.image));
  return {"drawn_samples", title, {}, cat("samples after step ", last.step), canvas.svg(title), {}};
}

plot::Figure strip_of(const std::vector<Picture>& pictures) {
  const auto count = static_cast<double>(pictures.size());
  const double width =
      std::min((kFigureWidth - 2 * kFigureSide - (count - 1) * kGap) / count, 300.0);
  double tallest = 0;
  for (const Picture& p : pictures) {
    tallest = std::max(tallest, p.image.height * width / p.image.width);
  }
  const std::string title = "Samples over the run";
  plot::Canvas canvas(kFigureWidth, kCaptionHeight + tallest + 28);
  draw_head(canvas, title, "the same noise and classes each time", {});
  double left = kFigureSide;
  for (const Picture& p : pictures) {
    const Image small = reduced(p.image, 2 * static_cast<int>(width));
    canvas.image({left, kCaptionHeight, width, p.image.height * width / p.image.width},
                 png_of(small));
    canvas.text({left + width / 2, kCaptionHeight + tallest + 18}, cat("step ", p.step),
                {plot::kSmallText, plot::Anchor::kMiddle, plot::kSoft});
    left += width + kGap;
  }
  return {"drawn_samples_over_run", title, {}, cat(pictures.size(), " pictures of samples"),
          canvas.svg(title),        {}};
}

}  // namespace

std::vector<plot::Figure> picture_figures(
    std::span<const std::pair<std::int64_t, std::string>> pictures) {
  std::vector<Picture> shown;
  for (const auto& [step, png] : pictures) {
    if (auto image = decoded(png)) shown.push_back({step, std::move(*image)});
  }
  std::vector<plot::Figure> figures;
  if (shown.empty()) return figures;
  figures.push_back(last_picture(shown.back()));
  if (shown.size() > 1) figures.push_back(strip_of(shown));
  return figures;
}

}  // namespace dtn
