#include "optim/entries.h"

namespace dtn {
namespace {

class Lion : public Optimizer {
 public:
  Lion(const OptimConfig& config, ParameterStore& store) : Optimizer(config, store, {"exp_avg"}) {}

 private:
  void update(const OptimizerUpdate& u) override {
    LionStep args{};
    set_common(args, u);
    args.m = state_of(u, 0);
    args.beta1 = config().beta1;
    args.beta2 = config().beta2;
    run_on(device(), args);
  }
};

}  // namespace

OptimizerEntry lion_entry() {
  OptimizerEntry row =
      optimizer_entry<Lion>("lion", "sign of the momentum, with decoupled weight decay");
  row.schema.reads = {"betas"};
  row.schema.defaults = [](OptimConfig& config) {
    config.beta2 = 0.99;
    config.eps.reset();
    config.momentum.reset();
  };
  return row;
}

}  // namespace dtn
