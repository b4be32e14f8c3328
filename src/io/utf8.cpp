#include "io/utf8.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace dtn {

std::string valid_utf8(const std::string& text) {
  using Json = nlohmann::json;
  if (std::ranges::all_of(text, [](unsigned char c) { return c < 0x80; })) return text;
  const std::string json = Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
  return Json::parse(json).get<std::string>();
}

}  // namespace dtn
