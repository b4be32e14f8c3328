// The statistics that positional normalization takes: mean and deviation of each token over its
// channels, as maps over the grid, and how much these resemble the image.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "apps/analyze/statistics.h"
#include "dtn/nn/observer.h"

namespace dtn {

// Grey values of the images of a batch, and the sizes of their gradients.
class ImageTones {
 public:
  // images [B, C, H, W], float32, normalized by a mean and a deviation for each channel. Without
  // these the values are taken as they are. Grey is 0.299 R + 0.587 G + 0.114 B, or the mean of the
  // channels if there are not 3. A gradient has the differences (next - previous) / 2 along rows
  // and columns; pixels at the edges count as their own outer neighbours.
  ImageTones(const Tensor& images, std::span<const float> mean, std::span<const float> std);

  std::int64_t count() const { return count_; }
  // Means over the cell of each token of a grid, [h w]. A cell has the pixels from floor(row H / h)
  // up to floor((row + 1) H / h), at least one; columns likewise.
  std::vector<double> brightness(std::int64_t image, const TokenGrid& grid) const;
  std::vector<double> edges(std::int64_t image, const TokenGrid& grid) const;

 private:
  std::vector<double> cell_means(const double* values, const TokenGrid& grid) const;

  std::int64_t count_, height_, width_;
  std::vector<double> grey_, edges_;  // [B, H, W]
};

// Pearson's correlation; NaN if one of the sides does not vary, up to rounding.
double correlation(std::span<const double> a, std::span<const double> b);

// The maps of one place in a model.
struct MomentMaps {
  static constexpr std::int64_t kMaps = 4;  // images whose maps are kept

  std::string name;
  TokenGrid grid{0, 0};
  std::vector<std::vector<double>> mean{}, std{};  // [h w] of the first images
  // Correlations of mean and std with the image, over the images for which they are defined.
  std::array<RunningMean, 2> brightness{}, edges{};

  // x [B, T, C], of the images of `tones`.
  void add(const Tensor& x, const TokenGrid& grid, const ImageTones& tones);
};

// Collects the maps of a model's places: the outputs of its convolutions if it shows them
// (Observer::convolved()); else the inputs of its normalizers; else the outputs of its layers.
class MomentCollector {
 public:
  explicit MomentCollector(const std::vector<LayerInfo>& layers);

  // Call before each batch, with the tones of its images.
  void begin_batch(ImageTones tones) { tones_ = std::move(tones); }
  void convolved(std::size_t layer, const Tensor& x, const TokenGrid& grid);
  void normalized(std::size_t layer, std::size_t site, const Tensor& x, const TokenGrid& grid);
  void end_layer(std::size_t layer, const Tensor& x, const TokenGrid& grid);

  const std::vector<MomentMaps>& places() const;

 private:
  void add(std::vector<MomentMaps>& places, const std::string& name, const Tensor& x,
           const TokenGrid& grid);

  std::vector<LayerInfo> layers_;
  bool shows_norms_ = false;
  std::optional<ImageTones> tones_;  // of the batch
  std::vector<MomentMaps> convolutions_, norms_, blocks_;
};

// Adds the keys moments, moment_brightness and moment_edges.
void add_moments(const std::vector<MomentMaps>& places, nlohmann::ordered_json& json);

}  // namespace dtn
