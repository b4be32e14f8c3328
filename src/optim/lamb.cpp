#include "kernels/optimizer/lamb.h"

#include "optim/entries.h"
#include "optim/tensor_table.h"

namespace dtn {
namespace {

// Returns true if the weight decay is above 0 in any part of the run.
bool decays_at_all(const OptimConfig& config) {
  return config.weight_decay != 0 || config.weight_decay_end.value_or(0) != 0;
}

class Lamb : public Optimizer {
 public:
  Lamb(const OptimConfig& config, ParameterStore& store)
      : Optimizer(config, store, {"exp_avg", "exp_avg_sq"}) {
    for (const ParameterRange& range : ranges()) tables_.emplace_back(range.tensors, device());
  }

  double clip_epsilon() const override { return 0; }

 private:
  void update(const OptimizerUpdate& u) override {
    LambStep args{};
    set_adam(args, u, config());
    if (u.decays && decays_at_all(config())) args.tensors = tables_[u.range].chunks();
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
