// Registry rows, one function per normalizer.
#pragma once

#include "dtn/nn/normalizer.h"

namespace dtn {

NormRow layer_norm_row();
NormRow rms_norm_row();
NormRow batch_norm_row();
NormRow instance_norm_row();
NormRow group_norm_row();
NormRow switchable_norm_row();
NormRow scale_norm_row();
NormRow power_norm_row();
NormRow dtn_row();
// Layers for C++ programs, which no config can choose.
NormRow adaptive_layer_norm_row();
NormRow conditional_instance_norm_row();
NormRow adaptive_instance_norm_row();
NormRow conditional_batch_norm_row();
NormRow spatially_adaptive_norm_row();
NormRow dynamic_layer_norm_row();
NormRow positional_norm_row();

}  // namespace dtn
