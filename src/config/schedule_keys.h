// Assignment of the keys of the section `schedule` to schedules.
#pragma once

#include <string>

namespace dtn::config {

// True if the schedule uses `schedule.<key>`; most keys apply to every schedule.
bool is_key_of_schedule(const std::string& key, const std::string& schedule);

}  // namespace dtn::config
