// A linear classifier on the features of a frozen model, trained as in DINO: cross-entropy, SGD
// with momentum 0.9 and no weight decay, a learning rate that falls from epoch to epoch to 0.
#pragma once

#include <cstdint>
#include <memory>

#include "dtn/core/tensor.h"
#include "dtn/io/safetensors.h"
#include "dtn/nn/linear.h"
#include "dtn/nn/parameters.h"
#include "dtn/optim/optimizer.h"

namespace dtn {

struct ProbeOptions {
  int epochs = 100;
  double lr = 0.001;  // for a batch of 256
  std::int64_t batch = 1024;
  std::uint64_t seed = 0;  // of the initial weights
};

// Trains on the host, in float32. Features arrive in pieces of any size; the probe forms its
// batches from them.
class LinearProbe {
 public:
  // Features [*, width] and labels in [0, classes). The weights start from N(0, 0.01), the bias
  // from 0.
  LinearProbe(std::int64_t width, std::int64_t classes, const ProbeOptions& options);

  // Learning rate of an epoch, counted from 0:
  //     lr (batch / 256) (1 + cos(pi epoch / epochs)) / 2
  double rate(int epoch) const;

  // Sets the rate for the steps that follow.
  void begin_epoch(int epoch) { rate_ = rate(epoch); }
  // Adds features [n, width] float32 and labels [n] int64. Makes a step for each full batch.
  void add(const Tensor& features, const Tensor& labels);
  // Makes a step for the rest of the epoch, if any.
  void end_epoch() { flush(); }

  // features [n, width] -> [n, classes] float32.
  Tensor logits(const Tensor& features) const;
  // linear.weight [classes, width] and linear.bias [classes].
  ParameterStore& parameters() { return store_; }

 private:
  void flush();
  void step(const Tensor& features, const Tensor& labels);

  ProbeOptions options_;
  ParameterStore store_;
  Linear linear_;
  std::unique_ptr<Optimizer> optimizer_;
  double rate_ = 0;
  std::int64_t steps_ = 0, waiting_ = 0;  // finished steps; rows of the batch that is being filled
  Tensor features_, labels_;              // that batch
};

}  // namespace dtn
