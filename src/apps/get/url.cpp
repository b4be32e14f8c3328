#include "apps/get/url.h"

#include <algorithm>

#include "core/format.h"
#include "core/text.h"
#include "dtn/core/check.h"

namespace dtn::app {
namespace {

bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

// Printable ASCII without the characters that some parsers read as another one.
bool is_plain(char c) {
  return c > ' ' && c < '\x7f' && std::string_view("\\\"<>^`{|}").find(c) == std::string::npos;
}

bool is_host(std::string_view host) {
  if (host.starts_with('[') && host.ends_with(']')) {  // an address of IPv6
    host = host.substr(1, host.size() - 2);
    return !host.empty() && host.find_first_not_of("0123456789abcdef:.") == std::string_view::npos;
  }
  return !host.empty() && std::ranges::all_of(host, [](char c) {
    return is_letter_or_digit(c) || c == '-' || c == '.' || c == '_';
  });
}

int usual_port(std::string_view scheme) { return scheme == "https" ? 443 : 80; }

}  // namespace

bool Url::same_origin(const Url& other) const {
  return scheme == other.scheme && host == other.host && port == other.port;
}

std::string Url::origin() const {
  const bool is_usual = port == usual_port(scheme);
  return cat(scheme, "://", host, is_usual ? "" : cat(":", port));
}

std::optional<Url> parse_url(std::string_view text) {
  if (!std::ranges::all_of(text, is_plain)) return {};
  const std::size_t colon = text.find("://");
  if (colon == std::string_view::npos) return {};
  Url url{.scheme = lowered(std::string(text.substr(0, colon))), .host = {}, .path = {}};
  if (url.scheme != "http" && url.scheme != "https") return {};
  text.remove_prefix(colon + 3);
  const std::size_t end = std::min(text.find_first_of("/?#"), text.size());
  url.path = text.substr(end);
  if (!url.path.empty() && url.path.front() != '/') return {};
  std::string_view authority = text.substr(0, end);
  url.port = usual_port(url.scheme);
  const std::size_t port = authority.rfind(':');
  if (port != std::string_view::npos && authority.find(']', port) == std::string_view::npos) {
    const auto number = parse_number<int>(authority.substr(port + 1));
    if (!number || *number < 1 || *number > 65535) return {};
    url.port = *number;
    authority = authority.substr(0, port);
  }
  url.host = lowered(std::string(authority));
  return is_host(url.host) ? std::optional(url) : std::nullopt;
}

std::string percent_encoded(std::string_view text) {
  std::string encoded;
  for (const char c : text) {
    if (is_letter_or_digit(c) || c == '-' || c == '.' || c == '_' || c == '~') {
      encoded += c;
    } else {
      encoded += format("%%%02X", static_cast<unsigned>(static_cast<unsigned char>(c)));
    }
  }
  return encoded;
}

}  // namespace dtn::app
