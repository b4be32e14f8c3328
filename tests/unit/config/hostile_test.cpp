// Text that is not a config: the loader reports an error quickly and without harm.
#include <chrono>

#include "unit/config/helpers.h"

namespace dtn::testing {
namespace {

std::string repeat(const std::string& s, int n) {
  std::string out;
  for (int i = 0; i < n; ++i) out += s;
  return out;
}

struct Case {
  std::string text;
  std::string error;
};

TEST(HostileYaml, RejectsUnsupportedYaml) {
  const Case cases[] = {
      {"seed: 1\nseed: 2", "t.yaml:2:1: duplicate key 'seed', first written in line 1"},
      {"model: {preset: a, preset: b}", "t.yaml:1:20: duplicate key 'preset'"},
      {"\"seed\": 1\nseed: 2", "t.yaml:2:1: duplicate key 'seed'"},
      {"model: &m {preset: vit_t}", "t.yaml:1:8: anchors (&name) are not allowed"},
      {"seed: &s 1", "anchors (&name) are not allowed"},
      {"seed: &s", "anchors (&name) are not allowed"},
      {"&k seed: 1", "anchors (&name) are not allowed"},
      {"seed: *s", "t.yaml:1:7: "},
      {"a: &a [1]\nb: *a", "anchors (&name) are not allowed"},
      {"<<: {seed: 1}", "t.yaml:1:1: merge keys (<<) are not allowed"},
      {"seed: !!int 1", "t.yaml:1:7: tags are not allowed"},
      {"model: !map {preset: vit_t}", "tags are not allowed"},
      {"!x seed: 1", "tags are not allowed"},
      {"seed: 1\n---\nseed: 2", "a config is a single YAML document"},
      {"---\n---\n", "a config is a single YAML document"},
      {"seed: 1\n...\nmodel: {preset: vit_t}\n", "a config is a single YAML document"},
      {std::string("seed: 1\0", 8), "t.yaml:1:8: control character with code 0"},
      {"seed: 1\n\n  \x01", "t.yaml:3:3: control character with code 1"},
      {"name: \"a\\0b\"", "t.yaml:1:7: a value contains a NUL character"},
      {"name: \xc3\x28", "t.yaml:1:7: the text is not valid UTF-8"},
      {"name: \xed\xa0\x80", "not valid UTF-8"},
      {"name: \xf4\x90\x80\x80", "not valid UTF-8"},
      {"name: \xc0\xaf", "not valid UTF-8"},
      {"name: \xe2\x82", "not valid UTF-8"},
      {"\xff\xfe"
       "a",
       "t.yaml:1:1: the text is not valid UTF-8"},
      {"name: " + std::string(5000, 'a'), "t.yaml:1:7: a value of 5000 bytes"},
      {"name: |\n" + repeat("  aaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n", 500), "t.yaml:1:7: a value of"},
      {std::string(300'000, '#'), "the text has 300000 bytes"},
      {std::string(2 << 20, ' '), "the text has 2097152 bytes"},
      {"? [a]\n: 1", "a key must be plain text"},
      {"{a: 1}: 1", "a key must be plain text"},
      {": 1", "a key is empty"},
      {"~: 1", "a key is empty"},
      {"'': 1", "a key is empty"},
      {"[1, 2]", "t.yaml:1:1: a config is a map of keys and values, not a list"},
      {"vit_t", "t.yaml:1:1: a config is a map of keys and values, not 'vit_t'"},
      {"a: [1, 2", "a '[' is not closed"},
      {"a: {b", "a '{' is not closed"},
      {"a: 'b", "a quote is not closed"},
      {"a: b: c", "t.yaml:1:5: not valid YAML: a second ': ' in one line"},
      {"\ta: 1", "use spaces"},
      {"a: @b", "put the text in quotes"},
      {"a:\n  b: 1\n c: 2", "does not line up"},
      {"%YAML 9.9\n---\na: 1", "remove the %YAML line"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.text.substr(0, 80));
    expect_contains(parse_error(c.text), c.error);
  }
}

TEST(HostileYaml, BoundsNestingAndSize) {
  constexpr int kMany = 60'000;
  std::string wide, blocks;
  for (int i = 0; i < 20'000; ++i) wide += cat("k", i, ": 1\n");
  for (int i = 0; i < 500; ++i) blocks += std::string(static_cast<std::size_t>(i), ' ') + "a:\n";
  const Case cases[] = {
      {repeat("[", kMany), ""},
      {repeat("[\n", kMany), ""},
      {repeat("{a: ", kMany), ""},
      {repeat("{", kMany), ""},
      {repeat("[{a: ", kMany / 2), ""},
      {repeat("- ", kMany), "nested deeper than 32"},
      {repeat("? ", kMany), ""},
      {repeat("? - ", kMany), ""},
      {repeat("!a ", kMany), ""},
      {repeat("&a ", kMany), ""},
      {repeat("\"a\": ", kMany / 2), ""},
      {repeat("a: [", 40) + repeat("]", 40), ""},
      {"a: " + repeat("[", 40) + repeat("]", 40), "nested deeper than 32"},
      {blocks, "nested deeper than 32"},
      {"a: [" + repeat("1,", kMany) + "1]", "more than 10000 values"},
      {wide, "more than 200 keys in one map"},
      {repeat("---\n", kMany), "single YAML document"},
      {repeat("%TAG ! !\n", kMany / 3), ""},
      {repeat("'", kMany), ""},
      {repeat("a:\n", kMany), ""},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.text.substr(0, 40));
    const auto begin = std::chrono::steady_clock::now();
    expect_contains(parse_error(c.text), c.error);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    // It takes a fraction of a second; sanitizers and busy machines are slow.
    EXPECT_LT(seconds.count(), 5.0);
  }
}

TEST(HostileYaml, MessagesStayShortAndPrintable) {
  const std::string error =
      parse_error("model: {preset: vit_t}\n\"" + std::string(3000, 'k') + "\": 1");
  EXPECT_LT(error.size(), 600u);
  const std::string odd = parse_error("model: {preset: \"\\x1b[31m\\n\"}");
  EXPECT_EQ(odd.find_first_of("\x1b\n"), std::string::npos) << odd;
}

TEST(HostileYaml, ValidOddities) {
  EXPECT_EQ(parse("---\nmodel: {preset: vit_t}\n...\n").model.preset, "vit_t");
  EXPECT_EQ(parse("\xef\xbb\xbfmodel: {preset: vit_t}").model.preset, "vit_t");
  EXPECT_EQ(parse("model: {preset: vit_t}\r\nseed: 3\r\n").seed, 3u);
  EXPECT_EQ(parse("%YAML 1.2\n---\nmodel: {preset: 'vit_t'}").model.preset, "vit_t");
  EXPECT_EQ(parse("model: {preset: vit_t}\nname: >-\n  a\n  b").name, "a b");
}

}  // namespace
}  // namespace dtn::testing
