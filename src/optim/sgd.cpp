#include "optim/entries.h"

namespace dtn {
namespace {

class Sgd : public Optimizer {
 public:
  Sgd(const OptimConfig& config, ParameterStore& store)
      : Optimizer(config, store, {"momentum_buffer"}) {}

 private:
  void update(const OptimizerUpdate& u) override {
    SgdStep args{};
    set_common(args, u);
    args.momentum_buffer = state_of(u, 0);
    args.momentum = config().momentum.value();
    args.nesterov = config().nesterov.value_or(false);
    run_on(device(), args);
  }
};

}  // namespace

OptimizerEntry sgd_entry() {
  OptimizerEntry row = optimizer_entry<Sgd>("sgd", "stochastic gradient descent with momentum");
  row.schema.reads = {"momentum", "nesterov"};
  row.schema.check = check_nesterov;
  return row;
}

}  // namespace dtn
