#include "nn/name_pattern.h"

#include <fnmatch.h>

#include <algorithm>

#include "dtn/core/check.h"

namespace dtn {

bool matches_name(const std::string& pattern, const std::string& name) {
  return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

void check_pattern(const std::string& key, const std::string& pattern,
                   const ParameterStore& store) {
  const auto& all = store.parameters();
  if (std::ranges::any_of(all, [&](const Parameter& p) { return matches_name(pattern, p.name); }))
    return;
  throw ConfigError(cat(key, ": the model has no parameter '", pattern,
                        "'; its parameters have names such as '", all.front().name, "' and '",
                        all.back().name, "'"));
}

}  // namespace dtn
