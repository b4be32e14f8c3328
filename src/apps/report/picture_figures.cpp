#include "apps/report/picture_figures.h"

#include <algorithm>
#include <optional>

#include "data/sample/resample.h"
#include "dtn/core/check.h"
#include "dtn/io/image.h"
#include "io/image/image_encode.h"
#include "plot/chart.h"
#include "plot/text.h"

namespace dtn {

namespace {

constexpr double kGap = 10;

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

// Its texts are large, because a phone shows the picture at two thirds of its size.
plot::Figure pictures_over_run(const std::vector<Picture>& pictures, const PictureTexts& texts) {
  constexpr double kStepText = 17, kRowBelow = 28, kSheetWidth = plot::kCellWidth;
  const std::size_t columns = std::min<std::size_t>(3, pictures.size());
  const auto across = static_cast<double>(columns);
  const double width = (kSheetWidth - (across - 1) * kGap) / across;
  double tallest = 0;
  for (const Picture& p : pictures) {
    tallest = std::max(tallest, p.image.height * width / p.image.width);
  }
  const double row = tallest + kRowBelow;
  const std::size_t rows = (pictures.size() + columns - 1) / columns;
  plot::Canvas canvas(kSheetWidth, row * static_cast<double>(rows));
  for (std::size_t i = 0; i < pictures.size(); ++i) {
    const Picture& p = pictures[i];
    const Image small = reduced(p.image, 2 * static_cast<int>(width));
    const std::size_t line = i / columns;
    const double left = static_cast<double>(i % columns) * (width + kGap);
    const double top = static_cast<double>(line) * row;
    canvas.image({left, top, width, p.image.height * width / p.image.width}, png_of(small));
    canvas.text({left + width / 2, top + tallest + 20}, cat("step ", p.step),
                {kStepText, plot::Anchor::kMiddle, plot::kSoft});
  }
  const std::string title = texts.title + " over the run";
  const std::string description = cat(title, ": ", pictures.size(), " pictures");
  plot::Figure figure{"drawn_samples_over_run", title, texts.over_run, description,
                      canvas.svg(description),  {}};
  figure.cell = true;
  return figure;
}

}  // namespace

plot::Figure picture_figure(const std::string& name, const std::string& title,
                            const std::string& png, double height_per_width,
                            const std::string& caption) {
  plot::Canvas canvas(plot::kCellWidth, plot::kCellWidth * height_per_width);
  canvas.image({0, 0, plot::kCellWidth, plot::kCellWidth * height_per_width}, png);
  plot::Figure figure{name, title, caption, title, canvas.svg(title), {}};
  figure.cell = true;
  return figure;
}

PictureTexts picture_texts(const std::string& task) {
  if (task == "translate") {
    return {"Pictures of the model", "Input, output and target",
            "The first validation pictures, one a row: input, output and target. Outputs",
            "The same validation pictures each time, one a row: input, output and target."};
  }
  return {"Samples of the model", "Samples", "Samples, drawn with the weights",
          "Samples over the run, from the same noise and classes each time."};
}

std::vector<plot::Figure> picture_figures(
    std::span<const std::pair<std::int64_t, std::string>> pictures, const PictureTexts& texts) {
  std::vector<Picture> shown;
  for (const auto& [step, png] : pictures) {
    if (auto image = decoded(png)) shown.push_back({step, std::move(*image)});
  }
  std::vector<plot::Figure> figures;
  if (shown.empty()) return figures;
  const Picture& last = shown.back();
  figures.push_back(picture_figure("drawn_samples", texts.title, png_of(last.image),
                                   static_cast<double>(last.image.height) / last.image.width,
                                   cat(texts.last, " after step ", last.step, ".")));
  if (shown.size() > 1) figures.push_back(pictures_over_run(shown, texts));
  return figures;
}

}  // namespace dtn
