#include "optim/rows.h"

namespace dtn {

const OptimizerRegistry& optimizer_registry() {
  static const OptimizerRegistry ours("optimizer",
                                      {adamw_row(), lamb_row(), lion_row(), muon_row(), sgd_row()});
  return ours;
}

}  // namespace dtn
