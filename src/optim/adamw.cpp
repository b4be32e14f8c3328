#include "optim/entries.h"

namespace dtn {
namespace {

class AdamW : public Optimizer {
 public:
  AdamW(const OptimConfig& config, ParameterStore& store)
      : Optimizer(config, store, {"exp_avg", "exp_avg_sq"}) {}

 private:
  void update(const OptimizerUpdate& u) override {
    AdamWStep args{};
    set_adam(args, u, config());
    run_on(device(), args);
  }
};

}  // namespace

OptimizerEntry adamw_entry() {
  OptimizerEntry row = optimizer_entry<AdamW>("adamw", "Adam with decoupled weight decay");
  row.schema.reads = {"betas", "eps"};
  return row;
}

}  // namespace dtn
