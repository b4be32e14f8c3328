// The condition that a model reads from the data (model.condition.from), for its conditional
// normalizers.
#pragma once

#include <memory>

#include "dtn/config/model_config.h"
#include "dtn/core/fields.h"
#include "dtn/nn/conditional_norm.h"
#include "dtn/nn/scope.h"

namespace dtn {

// With `index`, the parameter table.weight [styles, size], initially from N(0, 1), has a vector for
// each index. It decays.
class DataCondition {
 public:
  DataCondition(const Scope&, const ModelConfig&);

  // The vectors [B, size] of a batch, from the field condition_field(). Null if the model has no
  // condition. Throws Error if the field is absent or of another type or shape.
  std::shared_ptr<const Condition> read(Context&, const Fields&) const;

 private:
  std::optional<FieldSpec> field_;
  Parameter* table_;  // null: the data has the vectors
};

}  // namespace dtn
