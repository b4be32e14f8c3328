#include "tasks/backbone_cost.h"

namespace dtn {

Complexity backbone_cost(ModelConfig model, const ImageSize& size, const Registries& registries) {
  model.num_classes = 0;
  model.image_size = size;
  return complexity_of(model, registries.models, registries.norms);
}

}  // namespace dtn
