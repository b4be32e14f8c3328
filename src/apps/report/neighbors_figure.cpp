#include "apps/report/neighbors_figure.h"

#include <algorithm>
#include <cmath>

#include "core/format.h"
#include "dtn/core/check.h"
#include "dtn/io/image.h"
#include "io/image/image_encode.h"
#include "plot/page.h"

namespace dtn {

using namespace drawing;

namespace {

constexpr int kSheetGap = 2;    // pixels between images
constexpr int kSmallSide = 48;  // pixels; larger images are smoothed

// The images of neighbors.png.
class ImageSheet {
 public:
  // Throws DataError if the file is damaged.
  ImageSheet(const AnalysisJson& json, const std::string& png)
      : sheet_(decode_image(std::as_bytes(std::span(png)), "neighbors.png")),
        width_(whole(json, "width")),
        height_(whole(json, "height")) {}

  int longer_side() const { return std::max(width_, height_); }
  // Returns true if the sheet has that many images.
  bool holds(std::size_t rows, std::size_t columns) const {
    const auto fits = [](std::size_t n, int side, int all) {
      return side > 0 && n > 0 && n * with_gap(side) == with_gap(all);
    };
    return fits(columns, width_, sheet_.width) && fits(rows, height_, sheet_.height);
  }
  // Returns an image as the bytes of a PNG file.
  std::string png(std::size_t row, std::size_t column) const {
    const auto left = column * with_gap(width_);
    const auto top = row * with_gap(height_);
    Image image;
    image.reshape(width_, height_, sheet_.channels);
    const auto channels = static_cast<std::size_t>(sheet_.channels);
    const std::size_t bytes = static_cast<std::size_t>(width_) * channels;
    for (std::size_t y = 0; y < static_cast<std::size_t>(height_); ++y) {
      const std::size_t at = ((top + y) * static_cast<std::size_t>(sheet_.width) + left) * channels;
      std::copy_n(sheet_.pixels.data() + at, bytes, image.pixels.data() + y * bytes);
    }
    std::vector<std::byte> out;
    encode_png(image, out);
    return {reinterpret_cast<const char*>(out.data()), out.size()};
  }

 private:
  static std::size_t with_gap(int side) {
    return static_cast<std::size_t>(side) + std::size_t{kSheetGap};
  }

  // Returns 0 for a number that no image has.
  static int whole(const AnalysisJson& json, const char* key) {
    const double value = number_of(member(json, key));
    return value >= 1 && value <= 1e4 ? static_cast<int>(value) : 0;
  }

  Image sheet_;
  int width_, height_;
};

// Returns the first of the names of a class: "tench" of "tench, Tinca tinca". Empty if there is no
// label.
std::string class_text(const AnalysisJson& object, const char* name, const char* label) {
  const std::string text = text_of(member(object, name));
  if (!text.empty()) return text.substr(0, text.find(", "));
  const double number = number_of(member(object, label));
  return std::isfinite(number) ? format("class %.0f", number) : "";
}

// Returns the class of an image or, without a label, the name of the image.
std::string image_text(const AnalysisJson& object) {
  const std::string text = class_text(object, "class", "label");
  return text.empty() ? text_of(member(object, "name")) : text;
}

plot::Verdict compare(const AnalysisJson& truth, const AnalysisJson& label) {
  const double a = number_of(truth), b = number_of(label);
  if (!std::isfinite(a) || !std::isfinite(b)) return plot::Verdict::kNone;
  return a == b ? plot::Verdict::kRight : plot::Verdict::kWrong;
}

std::vector<plot::GalleryPicture> row_of(const AnalysisJson& row, std::size_t number,
                                         const ImageSheet& sheet) {
  const std::string truth = image_text(row), vote = class_text(row, "vote_class", "vote");
  std::vector<plot::GalleryPicture> pictures;
  pictures.push_back({.png = sheet.png(number, 0),
                      .description = cat("evaluated image: ", truth),
                      .text = truth,
                      .note = vote.empty() ? "" : "vote: " + vote,
                      .verdict = compare(member(row, "label"), member(row, "vote"))});
  const AnalysisJson& neighbors = member(row, "neighbors");
  for (std::size_t i = 0; i < neighbors.size(); ++i) {
    const AnalysisJson& near = neighbors[i];
    const std::string name = image_text(near);
    pictures.push_back({.png = sheet.png(number, i + 1),
                        .description = cat("neighbour ", i + 1, ": ", name),
                        .text = name,
                        .note = format("%.4f", number_of(member(near, "similarity"))),
                        .verdict = compare(member(row, "label"), member(near, "label"))});
  }
  return pictures;
}

// Explains the rows. Nothing is right or wrong unless both sides have labels, and training images
// without labels do not vote.
std::string caption_of(const AnalysisJson& rows) {
  const auto is_labelled = [](const AnalysisJson& object) {
    return std::isfinite(number_of(member(object, "label")));
  };
  const auto has_vote = [](const AnalysisJson& row) {
    return std::isfinite(number_of(member(row, "vote")));
  };
  const bool labelled = std::ranges::any_of(rows, is_labelled);
  const bool voted = std::ranges::any_of(rows, has_vote);
  const char* below = !voted     ? "its name"
                      : labelled ? "whether its class is that of the evaluated image"
                                 : "its class";
  return cat("Evaluated images, drawn evenly", labelled ? " over the classes" : "",
             ", each with its nearest training images, the most similar first. Below a training "
             "image: ",
             below, ", and the cosine of the two features.",
             voted ? " Below an evaluated image: the class for which its nearest training images "
                     "vote, more of them than are shown."
                   : "");
}

// Returns the number of images in each row; 0 if the rows differ or have none.
std::size_t columns_of(const AnalysisJson& rows) {
  const auto images = [](const AnalysisJson& row) {
    const AnalysisJson& neighbors = member(row, "neighbors");
    return neighbors.is_array() ? neighbors.size() + 1 : 0;
  };
  if (!rows.is_array() || rows.empty()) return 0;
  const std::size_t first = images(rows[0]);
  return std::ranges::all_of(rows, [&](const auto& r) { return images(r) == first; }) ? first : 0;
}

}  // namespace

std::optional<plot::Gallery> neighbors_gallery(const AnalysisJson& json, const std::string& png) {
  const AnalysisJson& rows = member(json, "rows");
  const std::size_t columns = columns_of(rows);
  if (columns == 0) return std::nullopt;
  try {
    const ImageSheet sheet(json, png);
    if (!sheet.holds(rows.size(), columns)) return std::nullopt;
    plot::Gallery gallery{.name = "neighbors",
                          .title = "Nearest neighbours",
                          .caption = caption_of(rows),
                          .rows = {},
                          .pixelated = sheet.longer_side() <= kSmallSide};
    for (std::size_t r = 0; r < rows.size(); ++r) gallery.rows.push_back(row_of(rows[r], r, sheet));
    return gallery;
  } catch (const DataError&) {
    return std::nullopt;
  }
}

std::string neighbors_page(const std::string& title, const std::string& json,
                           const std::string& png) {
  const auto gallery = neighbors_gallery(AnalysisJson::parse(json, nullptr, false), png);
  DTN_CHECK(gallery, "pictures that do not belong to their description");
  plot::Page page{.title = title};
  page.sections.push_back({.title = gallery->title, .galleries = {*gallery}});
  return plot::html(page);
}

}  // namespace dtn
