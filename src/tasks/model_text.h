// Description of a model in a line, for messages.
#pragma once

#include <string>

#include "dtn/models/backbone.h"

namespace dtn {

// "vit_s, dtn in the first 10 of 12 blocks"
std::string describe_backbone(const ModelConfig& model, const ModelEntry& family);

}  // namespace dtn
