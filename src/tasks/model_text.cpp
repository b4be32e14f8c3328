#include "tasks/model_text.h"

#include "core/format.h"

namespace dtn {

std::string describe_backbone(const ModelConfig& m, const ModelEntry& family) {
  // Vision transformers use the normalizer in the first blocks and LayerNorm in the others; other
  // families use the normalizer at their own sites.
  const bool in_first_blocks = m.stages() == 1 && !family.schema.norm_sites;
  const int layers = in_first_blocks ? m.norm_layers() : m.blocks();
  const std::string norm = layers > 0 ? m.norm.type : "ln";
  const std::string blocks = counted(m.blocks(), "blocks");
  const std::string where = norm != "ln" && layers < m.blocks()
                                ? cat(" in the first ", layers, " of ", blocks)
                                : cat(", ", blocks);
  return cat(m.preset, ", ", norm, where);
}

}  // namespace dtn
