// The models that model.preset names.
#pragma once

#include "dtn/config/schemas.h"
#include "dtn/core/registry.h"

namespace dtn {

// The available presets.
using PresetRegistry = Registry<PresetSchema>;

// The presets of the library's model families. The presets with public weights come last.
const PresetRegistry& preset_registry();

}  // namespace dtn
