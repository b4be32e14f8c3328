#include "apps/get/hub_endpoint.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>

#include "config/document.h"
#include "core/text.h"
#include "dtn/core/check.h"

namespace dtn::app {
namespace {

constexpr int kMaxRedirects = 10;
constexpr std::size_t kSha256Digits = 64;

std::string text_of_variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

// Removes quotes and the mark of a weak value.
std::string plain_etag(std::string_view etag) {
  if (etag.starts_with("W/")) etag.remove_prefix(2);
  if (etag.size() >= 2 && etag.front() == '"' && etag.back() == '"') {
    etag = etag.substr(1, etag.size() - 2);
  }
  return std::string(etag);
}

bool is_hexadecimal(std::string_view text) {
  return text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// Adds what one answer says. The first one counts: it comes from the endpoint itself, and later
// ones from the storage that it redirects to.
void add_facts(const HttpHead& head, FileFacts& facts) {
  const auto size = parse_number<std::int64_t>(head.header("x-linked-size"));
  if (!facts.size && size && *size >= 0) facts.size = size;
  if (facts.commit.empty()) {
    const std::string commit = lowered(head.header("x-repo-commit"));
    if (commit.size() == 40 && is_hexadecimal(commit)) facts.commit = commit;
  }
  if (facts.etag.empty()) {
    facts.etag = plain_etag(head.header("x-linked-etag"));
    // The ETag of a file outside LFS is another hash, which is shorter.
    const std::string digits = lowered(facts.etag);
    if (digits.size() == kSha256Digits && is_hexadecimal(digits)) facts.sha256 = digits;
  }
}

void add_last_facts(const HttpHead& head, FileFacts& facts) {
  add_facts(head, facts);
  const std::string etag = head.header("etag");
  facts.validator = etag.starts_with('"') ? etag : "";
  if (facts.etag.empty()) facts.etag = plain_etag(etag);
}

// Hands the last answer on with the facts of all.
class LastAnswer final : public HttpReceiver {
 public:
  LastAnswer(FileFacts& facts, HubReceiver& receiver) : facts_(facts), receiver_(receiver) {}

  bool begin(const HttpHead& head) override {
    add_last_facts(head, facts_);
    return receiver_.begin(head, facts_);
  }
  void receive(std::span<const std::byte> bytes) override { receiver_.receive(bytes); }

 private:
  FileFacts& facts_;
  HubReceiver& receiver_;
};

bool is_redirect(int status) {
  constexpr std::array kStatuses{301, 302, 303, 307, 308};
  return std::ranges::find(kStatuses, status) != kStatuses.end();
}

// Returns the address that an answer redirects to. Throws DataError if it is refused.
Url redirect_target(const HttpResult& result, const Url& from) {
  const std::string shown =
      config::shown(result.redirect.empty() ? result.head.header("location") : result.redirect);
  const auto to = parse_url(result.redirect);
  if (!to) {
    throw DataError(cat(from.origin(), " redirects to '", shown,
                        "', which is no address of the web (http or https); nothing was fetched "
                        "from there. Check HF_ENDPOINT and the proxy"));
  }
  if (from.scheme == "https" && to->scheme == "http") {
    throw DataError(cat(from.origin(), " redirects from https to '", shown,
                        "', which is not protected; nothing was fetched from there"));
  }
  return *to;
}

}  // namespace

std::string HubEndpoint::address(const HubModel& model, const std::string& file) const {
  return cat(url.origin(), url.path, "/", model.owner, "/", model.repo, "/resolve/",
             percent_encoded(model.revision), "/", file);
}

HubEndpoint hub_endpoint() {
  std::string text = text_of_variable("HF_ENDPOINT");
  if (text.empty()) text = "https://huggingface.co";
  while (text.ends_with('/')) text.pop_back();
  const auto url = parse_url(text);
  if (!url || url->path.find_first_of("?#") != std::string::npos) {
    throw ConfigError(cat("HF_ENDPOINT: '", config::shown(text),
                          "' is no address such as https://huggingface.co"));
  }
  std::string token = text_of_variable("HF_TOKEN");
  while (!token.empty() && (token.back() == '\n' || token.back() == '\r')) token.pop_back();
  const bool is_plain = std::ranges::all_of(token, [](char c) { return c > ' ' && c < '\x7f'; });
  if (!is_plain) throw ConfigError("HF_TOKEN has spaces or other characters that no token has");
  return {*url, token};
}

bool is_hub_offline() {
  const std::string value = lowered(text_of_variable("HF_HUB_OFFLINE"));
  return value == "1" || value == "true" || value == "yes" || value == "on";
}

HttpResult get_from_hub(HttpTransport& transport, const HubEndpoint& endpoint,
                        const std::string& address, const std::vector<std::string>& headers,
                        HubReceiver& receiver) {
  FileFacts facts;
  LastAnswer last(facts, receiver);
  std::string next = address;
  auto url = parse_url(next);
  DTN_CHECK(url, "no address: ", address);
  for (int redirects = 0; redirects <= kMaxRedirects; ++redirects) {
    std::vector<std::string> all = headers;
    all.emplace_back("Accept-Encoding: identity");  // sizes are those of the file
    if (!endpoint.token.empty() && url->same_origin(endpoint.url)) {
      all.push_back("Authorization: Bearer " + endpoint.token);
    }
    HttpResult result = transport.get(next, all, last);
    if (result.end != HttpEnd::kDone || !is_redirect(result.head.status)) return result;
    add_facts(result.head, facts);
    url = redirect_target(result, *url);
    next = result.redirect;
  }
  throw DataError(cat(endpoint.url.origin(), " redirects more than ", kMaxRedirects,
                      " times; check HF_ENDPOINT and the proxy"));
}

}  // namespace dtn::app
