#include "apps/analyze/token_moments.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <utility>

#include "core/format.h"
#include "dtn/core/check.h"
#include "dtn/core/parallel.h"

namespace dtn {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array kLuma{0.299, 0.587, 0.114};

double weight_of(std::int64_t channel, std::int64_t channels) {
  return channels == 3 ? kLuma[static_cast<std::size_t>(channel)]
                       : 1 / static_cast<double>(channels);
}

void add_gradient_sizes(const double* grey, std::int64_t height, std::int64_t width, double* out) {
  for (std::int64_t y = 0; y < height; ++y) {
    const double* above = grey + std::max<std::int64_t>(y - 1, 0) * width;
    const double* below = grey + std::min(y + 1, height - 1) * width;
    const double* row = grey + y * width;
    for (std::int64_t x = 0; x < width; ++x) {
      const double left = row[std::max<std::int64_t>(x - 1, 0)];
      const double right = row[std::min(x + 1, width - 1)];
      out[y * width + x] = std::hypot((right - left) / 2, (below[x] - above[x]) / 2);
    }
  }
}

// Mean and deviation of each row of `channels` numbers.
void moments_of_rows(const double* rows, std::int64_t count, std::int64_t channels,
                     std::vector<double>& mean, std::vector<double>& std) {
  for (std::int64_t t = 0; t < count; ++t) {
    RunningMean values;
    for (std::int64_t c = 0; c < channels; ++c) values.add(rows[t * channels + c]);
    mean.push_back(values.mean());
    std.push_back(values.std());
  }
}

// Sum of squares around the mean; 0 if it is no more than rounding.
double variation_of(std::span<const double> values, double mean) {
  double sum = 0, largest = 0;
  for (const double v : values) {
    sum += (v - mean) * (v - mean);
    largest = std::max(largest, std::abs(v));
  }
  constexpr double kRounding = 1e-6;  // of float32, in which the model computes
  const double rounding = kRounding * largest;
  return sum > rounding * rounding * static_cast<double>(values.size()) ? sum : 0;
}

double mean_of(std::span<const double> values) {
  double sum = 0;
  for (const double v : values) sum += v;
  return sum / static_cast<double>(values.size());
}

void add_defined(RunningMean& mean, double value) {
  if (std::isfinite(value)) mean.add(value);
}

// Six digits, as float32 has: the maps of a large image would fill a hundred megabytes else.
double rounded(double value) { return std::strtod(format("%.6g", value).c_str(), nullptr); }

Json maps_json(const std::vector<std::vector<double>>& maps, const TokenGrid& grid) {
  Json images = Json::array();
  for (const std::vector<double>& map : maps) {
    Json rows = Json::array();
    for (std::int64_t y = 0; y < grid.height; ++y) {
      Json row = Json::array();
      for (std::int64_t x = 0; x < grid.width; ++x) {
        row.push_back(rounded(map[static_cast<std::size_t>(y * grid.width + x)]));
      }
      rows.push_back(std::move(row));
    }
    images.push_back(std::move(rows));
  }
  return images;
}

Json pair_json(const std::array<RunningMean, 2>& pair) {
  const auto of = [](const RunningMean& m) {
    return std::isfinite(m.mean()) ? Json(m.mean()) : Json();
  };
  return {of(pair[0]), of(pair[1])};
}

}  // namespace

ImageTones::ImageTones(const Tensor& images, std::span<const float> mean,
                       std::span<const float> std)
    : count_(images.dim(0)), height_(images.dim(2)), width_(images.dim(3)) {
  const std::int64_t channels = images.dim(1), plane = height_ * width_;
  grey_.resize(static_cast<std::size_t>(count_ * plane));
  edges_.resize(grey_.size());
  parallel_for(count_, [&](std::int64_t b) {
    double* grey = grey_.data() + b * plane;
    for (std::int64_t c = 0; c < channels; ++c) {
      const auto at = static_cast<std::size_t>(c);
      const double scale = at < std.size() ? std[at] : 1, shift = at < mean.size() ? mean[at] : 0;
      const float* from = images.data<float>() + (b * channels + c) * plane;
      for (std::int64_t i = 0; i < plane; ++i) {
        grey[i] += weight_of(c, channels) * (from[i] * scale + shift);
      }
    }
    add_gradient_sizes(grey, height_, width_, edges_.data() + b * plane);
  });
}

std::vector<double> ImageTones::cell_means(const double* values, const TokenGrid& grid) const {
  std::vector<double> means;
  const auto end_of = [](std::int64_t at, std::int64_t pixels, std::int64_t cells) {
    return std::max((at + 1) * pixels / cells, at * pixels / cells + 1);
  };
  for (std::int64_t row = 0; row < grid.height; ++row) {
    const std::int64_t top = row * height_ / grid.height;
    const std::int64_t bottom = end_of(row, height_, grid.height);
    for (std::int64_t column = 0; column < grid.width; ++column) {
      const std::int64_t left = column * width_ / grid.width;
      const std::int64_t right = end_of(column, width_, grid.width);
      double sum = 0;
      for (std::int64_t y = top; y < bottom; ++y) {
        for (std::int64_t x = left; x < right; ++x) sum += values[y * width_ + x];
      }
      means.push_back(sum / static_cast<double>((bottom - top) * (right - left)));
    }
  }
  return means;
}

std::vector<double> ImageTones::brightness(std::int64_t image, const TokenGrid& grid) const {
  return cell_means(grey_.data() + image * height_ * width_, grid);
}

std::vector<double> ImageTones::edges(std::int64_t image, const TokenGrid& grid) const {
  return cell_means(edges_.data() + image * height_ * width_, grid);
}

double correlation(std::span<const double> a, std::span<const double> b) {
  DTN_CHECK(a.size() == b.size(), "correlation of ", a.size(), " and ", b.size(), " numbers");
  const double mean_a = mean_of(a), mean_b = mean_of(b);
  const double of_a = variation_of(a, mean_a), of_b = variation_of(b, mean_b);
  if (!(of_a > 0) || !(of_b > 0)) return std::numeric_limits<double>::quiet_NaN();
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - mean_a) * (b[i] - mean_b);
  return sum / std::sqrt(of_a * of_b);
}

void MomentMaps::add(const Tensor& x, const TokenGrid& of_x, const ImageTones& tones) {
  grid = of_x;
  const Tensor tokens = patches_of(x, grid);
  const std::int64_t batch = tokens.dim(0), count = tokens.dim(1), channels = tokens.dim(2);
  DTN_CHECK(batch == tones.count(), name, ": ", batch, " rows for ", tones.count(), " images");
  struct OfImage {
    std::vector<double> mean{}, std{};
    std::array<double, 2> brightness{}, edges{};
  };
  std::vector<OfImage> images(static_cast<std::size_t>(batch));
  parallel_for(batch, [&](std::int64_t b) {
    OfImage& image = images[static_cast<std::size_t>(b)];
    moments_of_rows(tokens.data<double>() + b * count * channels, count, channels, image.mean,
                    image.std);
    const std::vector<double> grey = tones.brightness(b, grid), edge = tones.edges(b, grid);
    image.brightness = {correlation(image.mean, grey), correlation(image.std, grey)};
    image.edges = {correlation(image.mean, edge), correlation(image.std, edge)};
  });
  for (OfImage& image : images) {
    for (std::size_t k = 0; k < 2; ++k) {
      add_defined(brightness[k], image.brightness[k]);
      add_defined(edges[k], image.edges[k]);
    }
    if (std::ssize(mean) == kMaps) continue;
    mean.push_back(std::move(image.mean));
    std.push_back(std::move(image.std));
  }
}

MomentCollector::MomentCollector(const std::vector<LayerInfo>& layers) : layers_(layers) {
  shows_norms_ =
      std::ranges::any_of(layers_, [](const LayerInfo& layer) { return !layer.norms.empty(); });
}

void MomentCollector::add(std::vector<MomentMaps>& places, const std::string& name, const Tensor& x,
                          const TokenGrid& grid) {
  auto place = std::ranges::find(places, name, &MomentMaps::name);
  if (place == places.end()) place = places.insert(places.end(), MomentMaps{.name = name});
  place->add(x, grid, *tones_);
}

void MomentCollector::convolved(std::size_t layer, const Tensor& x, const TokenGrid& grid) {
  add(convolutions_, layers_.at(layer).paths.front(), x, grid);
}

void MomentCollector::normalized(std::size_t layer, std::size_t site, const Tensor& x,
                                 const TokenGrid& grid) {
  if (!convolutions_.empty()) return;
  add(norms_, layers_.at(layer).norms.at(site).path, x, grid);
}

void MomentCollector::end_layer(std::size_t layer, const Tensor& x, const TokenGrid& grid) {
  if (shows_norms_ || !convolutions_.empty()) return;
  add(blocks_, layers_.at(layer).paths.front(), x, grid);
}

const std::vector<MomentMaps>& MomentCollector::places() const {
  return !convolutions_.empty() ? convolutions_ : shows_norms_ ? norms_ : blocks_;
}

void add_moments(const std::vector<MomentMaps>& places, Json& json) {
  Json moments = {{"sites", Json::array()}, {"mean", Json::array()}, {"std", Json::array()}};
  Json brightness = Json::array(), edges = Json::array();
  for (const MomentMaps& place : places) {
    moments["sites"].push_back(place.name);
    moments["mean"].push_back(maps_json(place.mean, place.grid));
    moments["std"].push_back(maps_json(place.std, place.grid));
    brightness.push_back(pair_json(place.brightness));
    edges.push_back(pair_json(place.edges));
  }
  json["moments"] = std::move(moments);
  json["moment_brightness"] = std::move(brightness);
  json["moment_edges"] = std::move(edges);
}

}  // namespace dtn
