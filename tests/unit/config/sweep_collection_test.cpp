// Collections of sweeps: their content, and errors with place and reason.
#include "config/sweep_config.h"
#include "unit/config/helpers.h"

namespace dtn::testing {
namespace {

class SweepCollections : public ::testing::Test {
 protected:
  SweepCollections() {
    folder_.write("base.yaml", "model: {preset: vit_t, norm: ln}\nschedule: {epochs: 9}\n");
    folder_.write("one.yaml",
                  "title: Table 1\nbase: base.yaml\nevaluate: [imagenet-r]\nvariants:\n"
                  "  - {name: a, paper_suites: {imagenet-c: 41.9}}\n");
    folder_.write("two.yaml", "base: base.yaml\nvariants:\n  - {name: b}\n");
  }

  SweepCollection load(const std::string& text, const std::vector<std::string>& set = {}) {
    return load_sweep_collection(folder_.write("all.yaml", text), set, fake_schemas());
  }
  std::string error(const std::string& text) {
    return error_of([&] { load(text); });
  }

  TempFolder folder_;
};

TEST_F(SweepCollections, ListSweepsAndTablesWithoutSweep) {
  const SweepCollection all = load(R"(
title: "All tables"
sweeps:
  - one.yaml
  - {title: "Table 4", not_yet: "no such models"}
  - two.yaml
evaluate: [imagenet-c]
)",
                                   {"optim.lr=2e-3"});
  EXPECT_EQ(all.name, "all");
  EXPECT_EQ(all.title, "All tables");
  ASSERT_EQ(all.tables.size(), 3u);
  EXPECT_EQ(all.tables[0].title, "Table 1");
  ASSERT_TRUE(all.tables[0].sweep);
  EXPECT_EQ(all.tables[0].sweep->suites, (std::vector<std::string>{"imagenet-r", "imagenet-c"}));
  EXPECT_EQ(all.tables[0].sweep->variants[0].paper_suites.at("imagenet-c"), 41.9);
  EXPECT_EQ(all.tables[0].sweep->variants[0].config.optim.lr, 2e-3);
  EXPECT_FALSE(all.tables[1].sweep);
  EXPECT_EQ(all.tables[1].not_yet, "no such models");
  EXPECT_EQ(all.tables[2].sweep->suites, (std::vector<std::string>{"imagenet-c"}));
}

TEST_F(SweepCollections, DistinguishedFromSweeps) {
  EXPECT_FALSE(is_sweep_collection((folder_.path() / "one.yaml").string()));
  EXPECT_TRUE(is_sweep_collection(folder_.write("all.yaml", "sweeps: [one.yaml]\n")));
}

TEST_F(SweepCollections, ErrorsNameLineAndColumn) {
  expect_contains(error("sweeps: []\n"), "all.yaml:1:9: sweeps must be a list");
  expect_contains(error("sweeps: [one.yaml, one.yaml]\n"), "two sweeps are named 'one'");
  expect_contains(error("sweeps: [three.yaml]\n"), "all.yaml:1:10: sweeps: no file");
  expect_contains(error("sweeps: [{title: T}]\n"), "has a not_yet");
  expect_contains(error("sweeps: [{titel: T, not_yet: x}]\n"), "did you mean 'title'?");
  expect_contains(error("sweeps: [one.yaml]\nevaluate: [imagenet-d]\n"), "imagenet-c");
  expect_contains(error("sweeps: [one.yaml]\nevaluate: imagenet-c\n"), "must be a list");
  expect_contains(error("sweeps: [one.yaml]\nvariants: []\n"), "unknown key 'variants'");
}

}  // namespace
}  // namespace dtn::testing
