// Synthetic sequences, for models that take no images.
#pragma once

#include <memory>

#include "dtn/config/model_config.h"
#include "dtn/data/dataset.h"

namespace dtn {

// Makes sequences of random lengths up to model.max_length with random words of its vocabulary.
// Labels are balanced and do not depend on the words. Equal seeds give equal sequences.
std::unique_ptr<Dataset> make_synthetic_sequences(std::int64_t size, const ModelConfig& model,
                                                  Split split, std::uint64_t seed);

}  // namespace dtn
