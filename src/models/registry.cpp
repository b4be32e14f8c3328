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
  static const ModelRegistry rows(
      "model family", {vit_row(), pvt_row(), pvt_v2_row(), swin_row(), levit_row(), t2t_vit_row(),
                       resnet_row(), regnet_row(), sequence_row()});
  return rows;
}

}  // namespace dtn
