// Factors on the scheduled learning rate for each parameter, and the ranges of the flat buffers
// that follow from them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "dtn/optim/optimizer.h"

namespace dtn {

// Returns the layer of a parameter in a model with `blocks` blocks, for optim.layer_decay:
//    0           parameters that make tokens from an image
//    i + 1       block i
//    blocks      the norm after the last block
//    blocks + 1  the head, and all other parameters
int layer_of(std::string_view parameter, int blocks);

// Returns the factor on the rate of each parameter, in the order of store.parameters(). Throws
// ConfigError if layer decay is set and the store has no blocks, or if a pattern matches no
// parameter.
std::vector<double> rate_factors(const OptimConfig& config, const ParameterStore& store);

// Returns the ranges of equal weight decay, rate and lateness, as few as possible, in the order of
// the flat buffers.
std::vector<ParameterRange> parameter_ranges(const OptimConfig& config,
                                             const ParameterStore& store);

// Lists each factor and its parameters, like "x 0.5: blocks.0-3, norm; x 1: head". If the tensors
// of a block or module have several factors, gives the number of tensors with each factor. Empty if
// all factors are 1.
std::string describe_rates(const OptimConfig& config, const ParameterStore& store);

}  // namespace dtn
