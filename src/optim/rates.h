// Which parameters learn at which multiple of the scheduled rate, and how that cuts the flat
// buffers into ranges.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "dtn/optim/optimizer.h"

namespace dtn {

// The layer that a parameter belongs to in a model of so many blocks, for optim.layer_decay: 0 for
// what makes tokens of an image, i + 1 for block i, and `blocks` too for the norm behind the last;
// blocks + 1 for the head, and for whatever else there is behind the blocks.
int layer_of(std::string_view parameter, int blocks);

// The factor on the rate of each parameter, in the order of store.parameters(). Throws ConfigError
// when the store has no blocks to decay over, or no parameter that a pattern matches.
std::vector<double> rate_factors(const OptimConfig& config, const ParameterStore& store);

// As few ranges as weight decay and rates leave, in the order of the flat buffers.
std::vector<ParameterRange> parameter_ranges(const OptimConfig& config,
                                             const ParameterStore& store);

// Each factor and what has it, like "x 0.5: blocks.0-3, norm; x 1: head"; where the tensors of a
// block or module have several, how many have this one. Empty when all are 1.
std::string describe_rates(const OptimConfig& config, const ParameterStore& store);

}  // namespace dtn
