#include "optim/entries.h"

namespace dtn {

const OptimizerRegistry& optimizer_registry() {
  static const OptimizerRegistry ours(
      "optimizer", {adamw_entry(), lamb_entry(), lion_entry(), muon_entry(), sgd_entry()});
  return ours;
}

}  // namespace dtn
