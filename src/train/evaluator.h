// Accuracy and loss of a model over a data set.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "data/feed/feeder.h"
#include "dtn/dist/communicator.h"
#include "dtn/models/vit.h"

namespace dtn {

struct EvalResult {
  double top1 = 0, top5 = 0;  // percent
  double loss = 0;            // mean cross-entropy, without smoothing
  std::int64_t count = 0;     // samples, each weighted alike
  double seconds = 0;
};

// Counts a batch's hits. A label is among the top k when fewer than k other classes score at least
// as high (equal scores go by class order); a NaN is never a hit.
class AccuracyMeter {
 public:
  // logits [n, K] float32, labels [n] int64; `indices` [n] are the samples' places in the data set,
  // which losses are added in the order of; empty: as they come.
  void add(const Tensor& logits, const Tensor& labels, std::span<const std::int64_t> indices = {});
  // Takes over what the other ranks counted: all have the same result then, to the last digit that
  // of a single one.
  void merge(Communicator& ranks);
  EvalResult result() const;

 private:
  struct Loss {
    std::int64_t index;
    float value;
  };
  std::int64_t top1_ = 0, top5_ = 0;
  std::vector<Loss> losses_;
};

struct EvalOptions {
  DType dtype = DType::kFloat32;
  // Unless empty, accuracy and loss are those of a choice between these classes alone: the logits
  // of the others are dropped. Ascending; every label must be one of them.
  std::vector<std::int64_t> classes;
  // Called after each batch with its float32 logits [n, K] and the number of samples done.
  std::function<void(const DeviceBatch&, const Tensor& logits, std::int64_t done)> on_batch;
  // Asked before each batch; true, from any rank, ends the evaluation early.
  std::function<bool()> stop;
  // That share the images, each by a loader of its own; null: alone.
  Communicator* ranks = nullptr;
};

// The columns `classes` of logits [n, K] float32: [n, classes.size()].
Tensor logits_of(const Tensor& logits, std::span<const std::int64_t> classes);
// labels [n] int64 as positions in `classes`.
Tensor labels_among(const Tensor& labels, std::span<const std::int64_t> classes);

// One epoch of the feeder, which must feed the model's device; with ranks, the result is that of
// all. Nothing when it was stopped.
std::optional<EvalResult> evaluate(VisionTransformer& model, BatchFeeder& feeder,
                                   const EvalOptions& options = {});

// Logits [n, K] float32, on the host, of images [n, channels, size, size], on any device.
Tensor predict(VisionTransformer& model, const Tensor& images, DType dtype = DType::kFloat32);

}  // namespace dtn
