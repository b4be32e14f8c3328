// Addresses of the web, parsed strictly: what this parser accepts, every parser reads alike.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace dtn::app {

struct Url {
  std::string scheme;  // "http" or "https"
  std::string host;    // lower case
  int port = 0;
  std::string path;  // with the query; empty, or begins with "/"

  // True if requests to both go to the same server.
  bool same_origin(const Url& other) const;
  // Returns for instance "https://huggingface.co", for messages.
  std::string origin() const;
};

// Returns nothing for other schemes, for user names and for characters that parsers disagree about.
std::optional<Url> parse_url(std::string_view text);

// Encodes a text as one part of a path: "refs/pr/1" becomes "refs%2Fpr%2F1".
std::string percent_encoded(std::string_view text);

}  // namespace dtn::app
