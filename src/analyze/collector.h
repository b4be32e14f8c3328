// Gathers what the layers of a model show of themselves, batch by batch.
#pragma once

#include <array>
#include <utility>
#include <vector>

#include "analyze/attention_statistics.h"
#include "analyze/site_statistics.h"
#include "dtn/nn/observer.h"

namespace dtn {

// Sum of squares and how many there were.
struct MeanSquare {
  double sum = 0, count = 0;
  void add(const Tensor& values);
  double root() const;  // NaN of none
};

struct LayerStatistics {
  std::vector<SiteStatistics> sites;
  AttentionStatistics attention;
  std::array<MeanSquare, 2> branches;  // of the attention, of the MLP
  MeanSquare residual;                 // behind the layer
  TokenGrid grid{0, 0};                // behind the layer
};

class Collector : public Observer {
 public:
  // `class_token`: the first of the tokens ahead of a grid is one.
  Collector(const std::vector<LayerInfo>& layers, bool class_token);

  // Before each batch of the first pass, whose first image has this place; then of the second.
  void begin_batch(std::int64_t first_image);
  void begin_second_pass();

  const std::vector<LayerStatistics>& layers() const { return layers_; }
  const MeanSquare& input() const { return input_; }  // of the first layer
  const Rollout& rollout() const { return rollout_; }

  void begin_layer(const Tensor& x, const TokenGrid& grid) override;
  void normalized(const Normalizer&, const Tensor& x, const Tensor& y,
                  const TokenGrid& grid) override;
  void attention(const AttentionView&) override;
  void branch(Branch, const Tensor& y, const TokenGrid& grid) override;
  void end_layer(const Tensor& x, const TokenGrid& grid) override;

 private:
  LayerStatistics& here() { return layers_.at(layer_ - 1); }

  bool class_token_, second_ = false;
  std::int64_t first_image_ = 0;
  std::size_t layer_ = 0, site_ = 0;  // layers that have begun, normalizers of the last one so far
  std::vector<LayerStatistics> layers_;
  MeanSquare input_;
  Rollout rollout_;
};

// The residual stream's patches ahead of the first layer and behind each, [B, T, C] float64.
class StreamCapture : public Observer {
 public:
  void begin_layer(const Tensor& x, const TokenGrid& grid) override;
  void end_layer(const Tensor& x, const TokenGrid& grid) override;
  std::vector<Tensor> take() { return std::exchange(seen_, {}); }

 private:
  std::vector<Tensor> seen_;
};

}  // namespace dtn
