// Collects the statistics of a model's layers, batch by batch.
#pragma once

#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "apps/analyze/statistics.h"
#include "apps/analyze/token_moments.h"
#include "dtn/nn/observer.h"

namespace dtn {

// Sum of squares, and their number.
struct MeanSquare {
  double sum = 0, count = 0;
  void add(const Tensor& values);
  double root() const;  // root mean square; NaN if there are no values
};

struct LayerStatistics {
  std::vector<SiteStatistics> sites;
  AttentionStatistics attention;
  std::array<MeanSquare, 2> branches;  // attention, MLP
  MeanSquare residual;                 // after the layer
  TokenGrid grid{0, 0};                // after the layer
};

class Collector : public Observer {
 public:
  // `class_token`: the first token in front of a grid is a class token.
  Collector(const std::vector<LayerInfo>& layers, bool class_token);

  // Call begin_batch() before each batch of the first pass and then of the second; `first_image` is
  // the index of the batch's first image. Call begin_second_pass() between the passes. The first
  // pass needs the tones of the batch's images, the second does not.
  void begin_batch(std::int64_t first_image, std::optional<ImageTones> tones = {});
  void begin_second_pass();

  const std::vector<LayerStatistics>& layers() const { return layers_; }
  const MeanSquare& input() const { return input_; }  // input of the first layer
  const Rollout& rollout() const { return rollout_; }
  const MomentCollector& moments() const { return moments_; }

  void begin_layer(const Tensor& x, const TokenGrid& grid) override;
  void convolved(const Tensor& x, const TokenGrid& grid) override;
  void normalized(const Normalizer&, const Tensor& x, const Tensor& y,
                  const TokenGrid& grid) override;
  void attention(const AttentionView&) override;
  void branch(Branch, const Tensor& y, const TokenGrid& grid) override;
  void end_layer(const Tensor& x, const TokenGrid& grid) override;

 private:
  LayerStatistics& here() { return layers_.at(layer_ - 1); }

  bool class_token_, second_ = false;
  std::int64_t first_image_ = 0;
  std::size_t layer_ = 0, site_ = 0;  // number of layers begun, and of normalizers in the last one
  std::vector<LayerStatistics> layers_;
  MeanSquare input_;
  Rollout rollout_;
  MomentCollector moments_;
};

// Patches of the residual stream before the first layer and after each layer, [B, T, C] float64.
class StreamCapture : public Observer {
 public:
  void begin_layer(const Tensor& x, const TokenGrid& grid) override;
  void end_layer(const Tensor& x, const TokenGrid& grid) override;
  std::vector<Tensor> take() { return std::exchange(seen_, {}); }

 private:
  std::vector<Tensor> seen_;
};

}  // namespace dtn
