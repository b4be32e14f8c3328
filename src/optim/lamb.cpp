#include "kernels/optimizer/lamb.h"

#include <algorithm>

#include "optim/entries.h"

namespace dtn {
namespace {

// Table of the tensors of a range, in device memory: a captured step needs no data from the host.
class TensorTable {
 public:
  TensorTable(const ParameterRange& range, Device device) {
    std::vector<std::int64_t> chunks, first_chunk{0};
    std::int64_t tensor = 0;
    for (const auto& [begin, end] : range.tensors) {
      for (std::int64_t i = begin; i < end; i += kLambChunk) {
        chunks.insert(chunks.end(), {i, std::min(i + kLambChunk, end), tensor});
      }
      first_chunk.push_back(static_cast<std::int64_t>(chunks.size()) / kFields);
      ++tensor;
    }
    chunks_ = Tensor::from(chunks, {first_chunk.back(), kFields}).to(device);
    first_chunk_ = Tensor::from(first_chunk, {tensor + 1}).to(device);
  }

  LambTensors tensors() const {
    return {chunks_.dim(0), first_chunk_.numel() - 1, static_cast<const LambChunk*>(chunks_.raw()),
            static_cast<const std::int64_t*>(first_chunk_.raw())};
  }

 private:
  static constexpr std::int64_t kFields = 3;
  static_assert(sizeof(LambChunk) == kFields * sizeof(std::int64_t));

  Tensor chunks_;       // [chunks, 3], one LambChunk per row
  Tensor first_chunk_;  // [tensors + 1]
};

// Returns true if the weight decay is above 0 in any part of the run.
bool decays_at_all(const OptimConfig& config) {
  return config.weight_decay != 0 || config.weight_decay_end.value_or(0) != 0;
}

class Lamb : public Optimizer {
 public:
  Lamb(const OptimConfig& config, ParameterStore& store)
      : Optimizer(config, store, {"exp_avg", "exp_avg_sq"}) {
    for (const ParameterRange& range : ranges()) tables_.emplace_back(range, device());
  }

  double clip_epsilon() const override { return 0; }

 private:
  void update(const OptimizerUpdate& u) override {
    LambStep args{};
    set_adam(args, u, config());
    if (u.decays && decays_at_all(config())) args.tensors = tables_[u.range].tensors();
    run_on(device(), args);
  }

  std::vector<TensorTable> tables_;  // one per range
};

}  // namespace

OptimizerEntry lamb_entry() {
  OptimizerEntry row = optimizer_entry<Lamb>(
      "lamb", "Adam with each tensor's step scaled by the norm of the tensor");
  row.schema.reads = {"betas", "eps"};
  row.schema.defaults = [](OptimConfig& config) {
    config.eps = 1e-6;
    config.clip_grad_norm = 1;
    config.momentum.reset();
  };
  return row;
}

}  // namespace dtn
