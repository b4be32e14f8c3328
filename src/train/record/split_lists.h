// The lists of the files that data.split gives to each split.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "dtn/data/sample_source.h"

namespace dtn {

// Writes splits/train.csv and splits/val.csv in the run folder: a header, then the path of each
// image below the folder of the data set and its label or labels, in the order of the samples.
// data.labels reads such a file. Without labels, and with several label sets, only the paths.
// Returns the names of the lists that were there and differed. Writes nothing for samples without a
// data set.
std::vector<std::string> write_split_lists(const std::filesystem::path& run,
                                           const SampleSource& training,
                                           const SampleSource* validation, bool with_labels);

}  // namespace dtn
