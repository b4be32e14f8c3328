// Files of the data set `tensors`.
#pragma once

#include <string>

#include "dtn/config/data_config.h"
#include "dtn/data/dataset.h"
#include "dtn/io/safetensors.h"

namespace dtn {

// Returns the file of a split: data.train or data.val below data.root, or else
// "<split>.safetensors". `holds` names its tensors in the error. Throws DataError if there is none.
std::string tensor_file_of(const DataConfig& data, Split split, const char* holds);

// Throws DataError about a tensor that `file` lacks, with those that it has. `needs` says who needs
// which tensors.
[[noreturn]] void fail_without_tensor(const char* name, const TensorFile& file,
                                      const std::string& path, const char* needs);

// Throws DataError unless the tensor, `name` of the file at `path`, has only finite values.
// Dimension 0 counts the samples.
void check_finite(const Tensor& tensor, const char* name, const std::string& path);

}  // namespace dtn
