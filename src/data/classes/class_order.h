// Class names: their orders, and how messages show them.
#pragma once

#include <string>
#include <vector>

#include "dtn/config/data_config.h"

namespace dtn {

// Sorts names. The natural order is timm's natural_key: it ignores case and reads a run of digits
// as one number. Names that are equal in it are sorted by their bytes.
void sort_class_names(std::vector<std::string>& names, ClassOrder order);

// Returns the first few names: "'cat', 'dog', 'fish' and 4 others".
std::string listed_names(const std::vector<std::string>& names);

// Returns the number that a name spells in digits, without leading zeros and below 1,000,000.
// Returns -1 for any other name.
std::int64_t number_of_class(const std::string& name);

// Warns if all `names` are numbers, the two orders differ and the config does not choose one.
// `where` names the source of the classes.
void warn_of_class_order(std::vector<std::string> names, const DataConfig& data,
                         const std::string& where);

}  // namespace dtn
