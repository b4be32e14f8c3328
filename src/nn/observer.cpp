#include "dtn/nn/observer.h"

namespace dtn {

Tensor AttentionView::weights() const {
  Context plain;
  return ops::grouped_attention_weights(plain, Variable(queries), Variable(keys), Variable(bias),
                                        how)
      .value();
}

}  // namespace dtn
