// Lists of classes in text files.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "dtn/config/data_config.h"
#include "dtn/data/dataset.h"

namespace dtn {

// Reads the names of classes in label order, one per line. Blanks around a name, empty lines and a
// byte order mark do not count. Throws DataError for a file that cannot be read, for a name that is
// there twice and for a file without names.
std::vector<std::string> read_class_list(const std::string& file);

// Returns the names in data.class_names, which must be set. A relative path begins at data.root.
std::vector<std::string> listed_class_names(const DataConfig& data);

// Returns the data set with the classes of data.class_names, which must be set: by name if it names
// its classes, else in the order of its labels. Throws DataError for a class that the list lacks.
std::unique_ptr<Dataset> with_listed_classes(std::unique_ptr<Dataset> dataset,
                                             const DataConfig& data);

}  // namespace dtn
