// The corruptions that data.corruptions names.
#pragma once

#include <optional>
#include <vector>

#include "data/corrupt/corruptions.h"
#include "dtn/config/data_config.h"
#include "dtn/config/schemas.h"
#include "dtn/config/train_config.h"

namespace dtn {

// Returns the cells of data.corruptions in their order, in which "fog/1-5" counts as five. The
// position of a cell is the field `style` of the task translate. Throws ConfigError for an entry
// that is not a corruption with severities, and for a cell that is there twice.
std::vector<CorruptionCell> corruption_list(const DataConfig& data);

// Returns the first problem of data.corruptions, if any: an entry that corruption_list() refuses,
// or one that does not work at model.image_size.
std::optional<ConfigProblem> corruption_list_problem(const ExperimentConfig& config);

}  // namespace dtn
