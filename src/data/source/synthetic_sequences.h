// Sequences that are made up, for models that see no images.
#pragma once

#include <memory>

#include "dtn/config/model_config.h"
#include "dtn/data/dataset.h"

namespace dtn {

// Of random lengths up to model.max_length and random words of its vocabulary. Labels are balanced
// and follow from nothing. Equal seeds give equal sequences.
std::unique_ptr<Dataset> make_synthetic_sequences(std::int64_t size, const ModelConfig& model,
                                                  Split split, std::uint64_t seed);

}  // namespace dtn
