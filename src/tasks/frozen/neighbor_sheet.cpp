#include "tasks/frozen/neighbor_sheet.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "data/feed/image_samples.h"
#include "data/feed/single_sample.h"
#include "data/sample/preview.h"
#include "data/sample/resample.h"
#include "dtn/core/check.h"
#include "io/image/image_encode.h"
#include "tasks/class_names.h"

namespace dtn {
namespace {

constexpr int kMaxSide = 96;  // pixels; 72 larger pictures make a report too big

// Draws images at one size: that of the first, reduced to kMaxSide.
class ThumbnailMaker {
 public:
  explicit ThumbnailMaker(const Normalization& normalization) : normalization_(normalization) {}

  Image make(const Tensor& image) {
    const ImageSize size{static_cast<int>(image.dim(2)), static_cast<int>(image.dim(3))};
    Image whole = preview_of(image.data<float>(), image.dim(1), size, normalization_.mean,
                             normalization_.std);
    if (width_ == 0) choose_size(whole);
    if (whole.width == width_ && whole.height == height_) return whole;
    Image small;
    resize(view(whole), width_, height_, Interpolation::kBicubic, workspace_, small);
    return small;
  }
  int width() const { return width_; }
  int height() const { return height_; }

 private:
  void choose_size(const Image& whole) {
    const double longer = std::max(whole.width, whole.height);
    const double scale = std::min(1.0, kMaxSide / longer);
    width_ = std::max(1, static_cast<int>(whole.width * scale));
    height_ = std::max(1, static_cast<int>(whole.height * scale));
  }

  Normalization normalization_;
  ResampleWorkspace workspace_;
  int width_ = 0, height_ = 0;
};

using Json = nlohmann::ordered_json;

// Returns the name of a class; null: it has none.
Json name_of_class(const std::vector<std::string>& names, std::optional<std::int64_t> label) {
  if (!label || *label < 0 || *label >= static_cast<std::int64_t>(names.size())) return nullptr;
  return names[static_cast<std::size_t>(*label)];
}

Json number_or_null(std::optional<std::int64_t> number) { return number ? Json(*number) : Json(); }

Json describe(const SimilarSample& sample, const ShownImages& images) {
  return {{"index", sample.index},
          {"name", images.name(sample.index)},
          {"label", number_or_null(sample.label)},
          {"class", name_of_class(images.class_names, sample.label)}};
}

// Name of a sample of a source, without the location of its data set if it has one.
std::string short_name(const SampleSource& source, std::int64_t index) {
  const auto* images = dynamic_cast<const ImageSamples*>(&source);
  return images ? images->dataset().item_name(index) : source.sample_name(index);
}

}  // namespace

ShownImages shown_images(const SampleSource& source) {
  ShownImages images{
      .image =
          [&source](std::int64_t index) { return single_sample(source, index, 0).at("image"); },
      .name = [&source](std::int64_t index) { return short_name(source, index); },
      .class_names = source.class_names()};
  put_into_words(images.class_names);
  return images;
}

Normalization shown_normalization(const SampleSource& source, const ExperimentConfig& config,
                                  const DatasetRegistry& datasets) {
  const auto* images = dynamic_cast<const ImageSamples*>(&source);
  const int channels = config.model.channels;
  if (!images || !images->dataset().has_pixels() || (channels != 1 && channels != 3)) return {};
  return resolve_normalization(config.data, channels, datasets);
}

NeighborSheet draw_neighbors(const std::vector<NeighborExample>& examples,
                             const ShownImages& evaluated, const ShownImages& references,
                             const Normalization& normalization) {
  DTN_CHECK(!examples.empty(), "a picture of neighbours without examples");
  ThumbnailMaker thumbnails(normalization);
  std::vector<Image> images;
  Json rows = Json::array();
  for (const NeighborExample& example : examples) {
    images.push_back(thumbnails.make(evaluated.image(example.sample.index)));
    Json row = describe(example.sample, evaluated);
    row["vote"] = number_or_null(example.vote);
    row["vote_class"] = name_of_class(references.class_names, example.vote);
    row["neighbors"] = Json::array();
    for (const SimilarSample& near : example.nearest) {
      images.push_back(thumbnails.make(references.image(near.index)));
      Json neighbor = describe(near, references);
      neighbor["similarity"] = near.similarity;
      row["neighbors"].push_back(neighbor);
    }
    rows.push_back(row);
  }
  const std::size_t columns = 1 + examples.front().nearest.size();
  const Json json{{"columns", columns},
                  {"width", thumbnails.width()},
                  {"height", thumbnails.height()},
                  {"rows", rows}};
  std::vector<std::byte> png;
  encode_png(mosaic_of(images, static_cast<int>(columns)), png);
  // Class names may be any bytes; parts that are not UTF-8 are replaced.
  return {{reinterpret_cast<const char*>(png.data()), png.size()},
          json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"};
}

}  // namespace dtn
