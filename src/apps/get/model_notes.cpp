#include "apps/get/model_notes.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "config/document.h"
#include "dtn/core/check.h"

namespace dtn::app {
namespace {

using Json = nlohmann::ordered_json;

// Returns the text of a field of pretrained_cfg, or else of the file; empty if there is none.
std::string text_of_field(const Json& json, const char* field) {
  const auto section = json.find("pretrained_cfg");
  for (const Json* object : {section == json.end() ? nullptr : &*section, &json}) {
    if (object == nullptr || !object->is_object()) continue;
    const auto found = object->find(field);
    if (found != object->end() && found->is_string()) return found->get<std::string>();
  }
  return "";
}

}  // namespace

std::vector<std::string> model_notes(const std::string& config_json) {
  constexpr std::pair<const char*, const char*> kFields[] = {{"license", "license"},
                                                             {"origin_url", "origin"},
                                                             {"paper_name", "paper"},
                                                             {"paper_ids", "paper"}};
  std::vector<std::string> notes;
  const Json json = Json::parse(config_json, nullptr, false);
  if (!json.is_object()) return notes;
  for (const auto& [field, name] : kFields) {
    const std::string text = text_of_field(json, field);
    if (!text.empty()) notes.push_back(cat(name, ": ", config::shown(text)));
  }
  return notes;
}

}  // namespace dtn::app
