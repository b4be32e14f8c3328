// Registry entries, one function per normalizer.
#pragma once

#include "dtn/nn/normalizer.h"

namespace dtn {

// NormEntry::make of a normalizer of class T.
template <class T>
std::unique_ptr<Normalizer> make_norm(const NormConfig& config, const NormShape& shape,
                                      const Scope& scope) {
  return std::make_unique<T>(config, shape, scope);
}

NormEntry layer_norm_entry();
NormEntry rms_norm_entry();
NormEntry batch_norm_entry();
NormEntry instance_norm_entry();
NormEntry group_norm_entry();
NormEntry switchable_norm_entry();
NormEntry scale_norm_entry();
NormEntry power_norm_entry();
NormEntry dtn_entry();
NormEntry adaptive_layer_norm_entry();
NormEntry dynamic_layer_norm_entry();
NormEntry positional_norm_entry();
NormEntry no_norm_entry();
NormEntry conditional_instance_norm_entry();
NormEntry adaptive_instance_norm_entry();
NormEntry mapped_instance_norm_entry();
NormEntry conditional_batch_norm_entry();
NormEntry spatially_adaptive_norm_entry();

}  // namespace dtn
