// Which keys of the schedule belong to which schedule.
#pragma once

#include <string>

namespace dtn::config {

// Whether `schedule.<key>` means anything for that schedule; most keys do for each.
bool is_key_of_schedule(const std::string& key, const std::string& schedule);

}  // namespace dtn::config
