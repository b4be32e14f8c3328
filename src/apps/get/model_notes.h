// Notes on a public model, from its config.json: licence and origin.
#pragma once

#include <string>
#include <vector>

namespace dtn::app {

// Returns lines such as "license: apache-2.0". The text is a JSON object, or there are no lines.
std::vector<std::string> model_notes(const std::string& config_json);

}  // namespace dtn::app
