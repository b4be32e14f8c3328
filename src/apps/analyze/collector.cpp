#include "apps/analyze/collector.h"

#include <cmath>
#include <limits>

namespace dtn {

void MeanSquare::add(const Tensor& values) {
  double of_batch = 0;
  for (const double v : values.values<double>()) of_batch += v * v;
  sum += of_batch;
  count += static_cast<double>(values.numel());
}

double MeanSquare::root() const {
  return count > 0 ? std::sqrt(sum / count) : std::numeric_limits<double>::quiet_NaN();
}

Collector::Collector(const std::vector<LayerInfo>& layers, bool class_token)
    : class_token_(class_token), moments_(layers) {
  for (const LayerInfo& layer : layers) {
    LayerStatistics& statistics = layers_.emplace_back();
    for (const LayerInfo::Norm& norm : layer.norms) {
      statistics.sites.emplace_back(norm.heads,
                                    &layer == &layers.front() && &norm == &layer.norms.front());
    }
  }
}

void Collector::begin_batch(std::int64_t first_image, std::optional<ImageTones> tones) {
  first_image_ = first_image;
  layer_ = 0;
  if (tones) moments_.begin_batch(std::move(*tones));
}

void Collector::begin_second_pass() {
  second_ = true;
  for (LayerStatistics& layer : layers_) {
    for (SiteStatistics& site : layer.sites) site.begin_second_pass();
  }
}

void Collector::begin_layer(const Tensor& x, const TokenGrid& grid) {
  site_ = 0;
  if (layer_++ == 0 && !second_) input_.add(patches_of(x, grid));
}

void Collector::convolved(const Tensor& x, const TokenGrid& grid) {
  if (!second_) moments_.convolved(layer_ - 1, x, grid);
}

void Collector::normalized(const Normalizer& norm, const Tensor& x, const Tensor& y,
                           const TokenGrid& grid) {
  if (!second_) moments_.normalized(layer_ - 1, site_, x, grid);
  SiteStatistics& site = here().sites.at(site_++);
  second_ ? site.add_again(norm, x, grid) : site.add(norm, x, y, grid);
}

void Collector::attention(const AttentionView& view) {
  if (!second_) here().attention.add(view, first_image_, class_token_, rollout_);
}

void Collector::branch(Branch which, const Tensor& y, const TokenGrid& grid) {
  if (!second_) here().branches[which == Branch::kMlp].add(patches_of(y, grid));
}

void Collector::end_layer(const Tensor& x, const TokenGrid& grid) {
  if (second_) return;
  here().grid = grid;
  moments_.end_layer(layer_ - 1, x, grid);
  here().residual.add(patches_of(x, grid));
}

void StreamCapture::begin_layer(const Tensor& x, const TokenGrid& grid) {
  if (seen_.empty()) seen_.push_back(patches_of(x, grid));
}

void StreamCapture::end_layer(const Tensor& x, const TokenGrid& grid) {
  seen_.push_back(patches_of(x, grid));
}

}  // namespace dtn
