#include "apps/get/hub_endpoint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "dtn/core/check.h"

namespace dtn::app {
namespace {

constexpr const char* kSha256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
constexpr const char* kCommit = "0123456789abcdef0123456789abcdef01234567";

// Answers by a table of addresses, and notes who got the token.
class FakeTransport final : public HttpTransport {
 public:
  std::map<std::string, HttpResult> answers;
  std::vector<std::string> asked, with_token;

  HttpResult get(const std::string& url, const std::vector<std::string>& headers,
                 HttpReceiver& receiver) override {
    asked.push_back(url);
    if (std::ranges::find(headers, "Authorization: Bearer hf_x") != headers.end()) {
      with_token.push_back(url);
    }
    const HttpResult result = answers.at(url);
    if (result.head.status == 200) receiver.begin(result.head);
    return result;
  }
};

class NotedFacts final : public HubReceiver {
 public:
  FileFacts facts;
  bool begin(const HttpHead&, const FileFacts& all) override {
    facts = all;
    return true;
  }
  void receive(std::span<const std::byte>) override {}
};

HttpResult redirect_to(const std::string& url, std::map<std::string, std::string> headers = {}) {
  HttpResult result;
  result.head = {302, std::move(headers)};
  result.redirect = url;
  return result;
}

HttpResult whole_file(std::map<std::string, std::string> headers = {}) {
  HttpResult result;
  result.head = {200, std::move(headers)};
  return result;
}

HubEndpoint endpoint_at(const std::string& url) { return {*parse_url(url), "hf_x"}; }

TEST(HubEndpoint, NamesFiles) {
  const HubEndpoint endpoint = endpoint_at("https://mirror.org:8443/hub");
  EXPECT_EQ(endpoint.address({.owner = "timm", .repo = "vit.a"}, "config.json"),
            "https://mirror.org:8443/hub/timm/vit.a/resolve/main/config.json");
  EXPECT_EQ(endpoint.address({"o", "r", "refs/pr/1"}, "model.safetensors"),
            "https://mirror.org:8443/hub/o/r/resolve/refs%2Fpr%2F1/model.safetensors");
}

TEST(HubEndpoint, TakesFactsOfTheFirstAnswer) {
  FakeTransport transport;
  transport.answers["https://hub.org/f"] =
      redirect_to("https://cdn.org/f", {{"x-linked-size", "1234"},
                                        {"x-linked-etag", std::string("\"") + kSha256 + "\""},
                                        {"x-repo-commit", kCommit}});
  transport.answers["https://cdn.org/f"] = whole_file({{"x-linked-size", "1"},
                                                       {"x-linked-etag", "\"other\""},
                                                       {"x-repo-commit", "other"},
                                                       {"etag", "\"cdn\""}});
  NotedFacts noted;
  get_from_hub(transport, endpoint_at("https://hub.org"), "https://hub.org/f", {}, noted);
  EXPECT_EQ(noted.facts.size, 1234);
  EXPECT_EQ(noted.facts.sha256, kSha256);
  EXPECT_EQ(noted.facts.commit, kCommit);
  EXPECT_EQ(noted.facts.validator, "\"cdn\"");
}

TEST(HubEndpoint, DoesNotTakeOtherEtagsForChecksums) {
  FakeTransport transport;
  transport.answers["https://hub.org/f"] = whole_file(
      {{"etag", std::string("W/\"") + kSha256 + "\""}, {"x-linked-etag", "\"1234abcd\""}});
  NotedFacts noted;
  get_from_hub(transport, endpoint_at("https://hub.org"), "https://hub.org/f", {}, noted);
  EXPECT_EQ(noted.facts.sha256, "");
  EXPECT_EQ(noted.facts.etag, "1234abcd");
  EXPECT_EQ(noted.facts.validator, "");  // weak
}

TEST(HubEndpoint, GivesTheTokenToItsOwnServerAlone) {
  FakeTransport transport;
  transport.answers["https://hub.org/a"] = redirect_to("https://hub.org/b");
  transport.answers["https://hub.org/b"] = redirect_to("https://hub.org:444/c");
  transport.answers["https://hub.org:444/c"] = redirect_to("https://cdn.org/d");
  transport.answers["https://cdn.org/d"] = whole_file();
  NotedFacts noted;
  get_from_hub(transport, endpoint_at("https://hub.org"), "https://hub.org/a", {}, noted);
  EXPECT_EQ(transport.asked.size(), 4u);
  EXPECT_EQ(transport.with_token,
            (std::vector<std::string>{"https://hub.org/a", "https://hub.org/b"}));
}

TEST(HubEndpoint, RefusesRedirectsAwayFromTheWeb) {
  for (const char* to :
       {"file:///etc/passwd", "gopher://a/", "http://cdn.org/f", "", "https://u@a/"}) {
    FakeTransport transport;
    transport.answers["https://hub.org/f"] = redirect_to(to);
    NotedFacts noted;
    EXPECT_THROW(
        get_from_hub(transport, endpoint_at("https://hub.org"), "https://hub.org/f", {}, noted),
        DataError)
        << to;
    EXPECT_EQ(transport.asked.size(), 1u);
  }
}

TEST(HubEndpoint, EndsLoops) {
  FakeTransport transport;
  transport.answers["https://hub.org/f"] = redirect_to("https://hub.org/f");
  NotedFacts noted;
  EXPECT_THROW(
      get_from_hub(transport, endpoint_at("https://hub.org"), "https://hub.org/f", {}, noted),
      DataError);
  EXPECT_EQ(transport.asked.size(), 11u);
}

TEST(HubEndpoint, ReadsTheEnvironment) {
  ::unsetenv("HF_ENDPOINT");
  ::setenv("HF_TOKEN", "hf_x\n", 1);
  EXPECT_EQ(hub_endpoint().url.origin(), "https://huggingface.co");
  EXPECT_EQ(hub_endpoint().token, "hf_x");
  ::setenv("HF_ENDPOINT", "http://mirror.org/hub//", 1);
  EXPECT_EQ(hub_endpoint().url.path, "/hub");
  for (const char* wrong : {"mirror.org", "file:///hub", "http://mirror.org/?a"}) {
    ::setenv("HF_ENDPOINT", wrong, 1);
    EXPECT_THROW(hub_endpoint(), ConfigError) << wrong;
  }
  ::unsetenv("HF_ENDPOINT");
  ::setenv("HF_TOKEN", "hf x", 1);
  EXPECT_THROW(hub_endpoint(), ConfigError);
  ::unsetenv("HF_TOKEN");
  for (const char* value : {"1", "true", "ON"}) {
    ::setenv("HF_HUB_OFFLINE", value, 1);
    EXPECT_TRUE(is_hub_offline()) << value;
  }
  ::setenv("HF_HUB_OFFLINE", "0", 1);
  EXPECT_FALSE(is_hub_offline());
  ::unsetenv("HF_HUB_OFFLINE");
}

}  // namespace
}  // namespace dtn::app
