// The option `groups` of normalizers that work on groups of consecutive channels.
#pragma once

#include <cmath>

#include "dtn/config/norm_config.h"
#include "dtn/core/check.h"

namespace dtn {

inline OptionSchema groups_option(std::string doc) {
  return choice_or_number_option("groups", "heads", 1, 65536, std::move(doc));
}

// Returns the number of groups as configured, which may be fractional.
inline double groups_as_written(const NormConfig& config, std::int64_t heads) {
  return config.number("groups").value_or(static_cast<double>(heads));
}

// Returns the number of groups. The config must have passed check_groups().
inline std::int64_t groups_of(const NormConfig& config, std::int64_t heads) {
  return static_cast<std::int64_t>(groups_as_written(config, heads));
}

inline std::optional<NormProblem> check_groups(const NormConfig& config, const NormSite& site) {
  const double groups = groups_as_written(config, site.heads);
  if (groups >= 1 && std::fmod(static_cast<double>(site.channels), groups) == 0 &&
      groups == std::floor(groups)) {
    return std::nullopt;
  }
  return NormProblem{"groups",
                     cat(groups, " groups do not divide the ", site.channels, " channels evenly")};
}

}  // namespace dtn
