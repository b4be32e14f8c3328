#include "dtn/models/backbone.h"
#include "dtn/models/levit.h"
#include "dtn/models/pvt.h"
#include "dtn/models/regnet.h"
#include "dtn/models/resnet.h"
#include "dtn/models/sequence.h"
#include "dtn/models/swin.h"
#include "dtn/models/t2t_vit.h"
#include "dtn/models/vit.h"

namespace dtn {
const ModelRegistry& model_registry() {
  static const ModelRegistry entries(
      "model family", {vit_entry(), pvt_entry(), pvt_v2_entry(), swin_entry(), levit_entry(),
                       t2t_vit_entry(), resnet_entry(), regnet_entry(), sequence_entry()});
  return entries;
}

}  // namespace dtn
