// One function per normalizer: its row of the registry.
#pragma once

#include "dtn/nn/normalizer.h"

namespace dtn {

NormRow layer_norm_row();
NormRow dtn_row();

}  // namespace dtn
