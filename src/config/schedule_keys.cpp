#include "config/schedule_keys.h"

namespace dtn::config {

bool is_key_of_schedule(const std::string& key, const std::string& schedule) {
  if (key == "milestones" || key == "gamma") return schedule == "step";
  if (key == "power") return schedule == "poly";
  if (key == "decay_epochs") return schedule == "step" || schedule == "wsd";
  if (key == "warmup_steps") return schedule == "rsqrt";
  if (schedule == "rsqrt") return key == "name" || key == "epochs" || key == "steps";
  if (key == "cooldown_epochs" || key == "warmup_prefix") return schedule != "constant";
  return true;
}

}  // namespace dtn::config
