// The condition of a diffusion transformer: vectors for the noise level and the label of each
// image. Parameters: t_embedder.mlp.{0,2}.{weight,bias}, y_embedder.embedding_table.weight.
#pragma once

#include <optional>

#include "dtn/config/model_config.h"
#include "dtn/core/fields.h"
#include "dtn/nn/linear.h"

namespace dtn {

class DitCondition {
 public:
  // Without classes (model.num_classes 0) there is no table of labels.
  DitCondition(const Scope&, const ModelConfig&);

  // Both [B, D] in the type of the parameters; label undefined without classes.
  struct Vectors {
    Variable time, label;
  };
  // Reads the fields "timestep" [B] int64 and, with classes, "label" [B] int64. Throws Error for
  // fields of other types or shapes, or for a label outside the table.
  Vectors vectors(Context&, const Fields&) const;
  // The sum of both vectors.
  static Variable sum(Context&, const Vectors&);

 private:
  Linear time_in_, time_out_;
  Parameter* table_;  // [K or K + 1, D]; null: no classes
};

}  // namespace dtn
