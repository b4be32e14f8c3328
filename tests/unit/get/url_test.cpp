#include "apps/get/url.h"

#include <gtest/gtest.h>

namespace dtn::app {
namespace {

TEST(Url, HasItsParts) {
  const auto url = parse_url("HTTPS://Hub.Example.ORG:8443/a/b?c=d");
  ASSERT_TRUE(url);
  EXPECT_EQ(url->scheme, "https");
  EXPECT_EQ(url->host, "hub.example.org");
  EXPECT_EQ(url->port, 8443);
  EXPECT_EQ(url->path, "/a/b?c=d");
  EXPECT_EQ(url->origin(), "https://hub.example.org:8443");
  EXPECT_EQ(parse_url("http://[::1]:80/x")->origin(), "http://[::1]");
  EXPECT_EQ(parse_url("http://[::1]")->host, "[::1]");
  EXPECT_EQ(parse_url("https://huggingface.co")->port, 443);
}

// Parsers disagree about the host of these, or they lead away from the web.
TEST(Url, RefusesWhatIsNotPlain) {
  for (const char* text : {"",
                           "huggingface.co",
                           "file:///etc/passwd",
                           "ftp://a/b",
                           "javascript://a/b",
                           "http://",
                           "http:///x",
                           "http://a b/",
                           "http://a\\@b/",
                           "http://user@host/",
                           "http://u:p@host/",
                           "http://host:0/",
                           "http://host:65536/",
                           "http://host:80x/",
                           "http://host:/",
                           "http://a?b",
                           "http://a#b",
                           "http://a\n/",
                           "http://h\xc3\xb6st/",
                           "http://[::1/",
                           "http://[/x]/"}) {
    EXPECT_FALSE(parse_url(text)) << text;
  }
}

TEST(Url, SameOriginNeedsSchemeHostAndPort) {
  const Url hub = *parse_url("https://hub.org/a");
  EXPECT_TRUE(hub.same_origin(*parse_url("https://HUB.org:443/b")));
  EXPECT_FALSE(hub.same_origin(*parse_url("http://hub.org/a")));
  EXPECT_FALSE(hub.same_origin(*parse_url("https://hub.org:444/a")));
  EXPECT_FALSE(hub.same_origin(*parse_url("https://hub.org.evil.net/a")));
  EXPECT_FALSE(hub.same_origin(*parse_url("https://cdn.hub.org/a")));
}

TEST(Url, EncodesParts) {
  EXPECT_EQ(percent_encoded("v1.0-a_b~"), "v1.0-a_b~");
  EXPECT_EQ(percent_encoded("refs/pr/1"), "refs%2Fpr%2F1");
  EXPECT_EQ(percent_encoded("\xc3\xa4 +"), "%C3%A4%20%2B");
}

}  // namespace
}  // namespace dtn::app
