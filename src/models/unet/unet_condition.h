// The conditions of an encoder-decoder's normalizers, from the fields of a batch.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "dtn/config/model_config.h"
#include "dtn/core/fields.h"
#include "dtn/nn/conditional_norm.h"
#include "dtn/nn/linear.h"
#include "dtn/nn/token_conv.h"
#include "models/data_condition.h"

namespace dtn {

// Parameters, each only where a normalizer needs it:
//   table.weight [S, K]           the vector of each style, initially from N(0, 1)
//   encoder.{0,1}, encoder.proj   two 3 x 3 convolutions of stride 2 with ReLU, the mean over the
//                                 grid and a linear layer: the vector of a style image
//   mapping.{0,1}                 linear layers with ReLU: the vector for all norms adain_mlp
class UNetCondition {
 public:
  UNetCondition(const Scope&, const ModelConfig&);

  // The conditions of a batch, as far as the normalizers read them.
  struct Values {
    Variable vector;     // [B, K]
    Variable mapped;     // [B, M], of adain_mlp
    Condition style;     // of cin: an index, or weights of the styles
    Tokens map;          // [B, H W, K], of spade
    Tensor style_image;  // [B, channels, H, W], of adain
  };
  // Throws ConfigError if a field is missing, Error if it has another type or shape.
  Values read(Context&, const Fields&) const;

  // The condition of a normalizer of this type at a level. `style_features` [B, T, C] are those of
  // the style image at that level, for adain. Null: the normalizer has no condition.
  std::shared_ptr<const Condition> at(Context&, const Values&, const std::string& norm, int level,
                                      const Variable& style_features) const;

 private:
  Variable vector_of(Context&, const Fields&) const;
  Variable encoded(Context&, const Tensor& images) const;

  ModelConfig config_;
  std::vector<FieldSpec> fields_;
  std::optional<DataCondition> given_;  // vectors from the data, or from the table
  std::vector<TokenConv> encoder_;
  std::optional<Linear> projection_;
  std::vector<Linear> mapping_;
};

}  // namespace dtn
