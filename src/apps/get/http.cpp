#include "apps/get/http.h"

namespace dtn::app {

std::string HttpHead::header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? std::string() : found->second;
}

}  // namespace dtn::app
