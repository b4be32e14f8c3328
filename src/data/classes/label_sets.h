// A data set with the labels of several label sets (data.label_sets).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dtn/config/data_config.h"
#include "dtn/data/dataset.h"

namespace dtn {

// The number of classes of the data set that the sets name. Unset: no set names classes. Throws
// ConfigError if the sets name different numbers of classes.
std::optional<std::int64_t> named_class_count(std::span<const LabelSet> sets);

// The number of classes of the data set if the sets have `outputs` classes together.
std::int64_t classes_before(std::span<const LabelSet> sets, std::int64_t outputs);

// The ranges of the sets, in order. `classes`: number of classes of the data set.
std::vector<LabelRange> label_ranges(std::span<const LabelSet> sets, std::int64_t classes);

// The samples of `dataset`, each once for each set: sample i of the result is sample i / S of
// `dataset` with its label in set i mod S, for S sets. Dataset::ready_fields() has `style` [N S]
// int64, the positions of the sets. Class names are "<set>/<class>". Throws DataError if the data
// set has no labels, or another number of classes than a set names, and ConfigError if it has
// ready fields.
std::unique_ptr<Dataset> with_label_sets(std::shared_ptr<const Dataset> dataset,
                                         std::span<const LabelSet> sets);

}  // namespace dtn
