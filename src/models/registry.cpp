#include "dtn/models/backbone.h"
#include "dtn/models/levit.h"
#include "dtn/models/pvt.h"
#include "dtn/models/regnet.h"
#include "dtn/models/resnet.h"
#include "dtn/models/sequence.h"
#include "dtn/models/swin.h"
#include "dtn/models/t2t_vit.h"
#include "dtn/models/vit.h"
#include "models/name_maps.h"

namespace dtn {
namespace {

template <class Family>
std::unique_ptr<Backbone> make(const Scope& scope, const ModelConfig& config) {
  return std::make_unique<Family>(scope, config);
}

}  // namespace

const ModelRegistry& model_registry() {
  static const ModelRegistry rows(
      "model family", {{{.family = "vit",
                         .doc = "vision transformers: one grid of tokens from the first block to "
                                "the last"},
                        make<VisionTransformer>,
                        {.renamed = in_timm_names}},
                       pvt_row(),
                       pvt_v2_row(),
                       swin_row(),
                       levit_row(),
                       t2t_vit_row(),
                       resnet_row(),
                       regnet_row(),
                       sequence_row()});
  return rows;
}

}  // namespace dtn
