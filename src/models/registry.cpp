#include "dtn/models/backbone.h"
#include "dtn/models/vit.h"

namespace dtn {
namespace {

template <class Family>
std::unique_ptr<Backbone> make(const Scope& scope, const ModelConfig& config) {
  return std::make_unique<Family>(scope, config);
}

}  // namespace

const ModelRegistry& model_registry() {
  static const ModelRegistry rows(
      "model family", {{"vit",
                        "vision transformers: one grid of tokens from the first block to "
                        "the last",
                        make<VisionTransformer>}});
  return rows;
}

}  // namespace dtn
