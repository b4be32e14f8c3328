// Collections of sweeps: their content, and errors with place and reason.
#include "config/sweeps/sweep_config.h"
#include "unit/config/helpers.h"

namespace dtn::testing {
namespace {

class SweepCollections : public ::testing::Test {
 protected:
  SweepCollections() {
    folder_.write("base.yaml", "model: {preset: vit_t, norm: ln}\nschedule: {epochs: 9}\n");
    folder_.write("one.yaml",
                  "title: Table 1\nbase: base.yaml\nevaluate: [imagenet-r]\nvariants:\n"
                  "  - {name: a, label: first, seeds: [5, 6], paper_suites: {imagenet-c: 41.9}}\n");
    folder_.write("two.yaml", "base: base.yaml\nseeds: [1, 7]\nvariants:\n  - {name: b}\n");
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
  EXPECT_EQ(all.tables[0].sweep->variants[0].paper_suites.at("imagenet-c").figure, 41.9);
  EXPECT_EQ(all.tables[0].sweep->variants[0].config.optim.lr, 2e-3);
  EXPECT_FALSE(all.tables[1].sweep);
  EXPECT_EQ(all.tables[1].not_yet, "no such models");
  EXPECT_EQ(all.tables[2].sweep->suites, (std::vector<std::string>{"imagenet-c"}));
}

TEST_F(SweepCollections, ListFigures) {
  const SweepCollection all = load(R"(
sweeps:
  - {title: "Figure 2", figure: distance, analyze: [one/a, "two/b:7"], before: true, images: 8,
     seed: 3, token: 91, pictures: [attention_distance]}
  - one.yaml
  - two.yaml
  - {title: "Figure 4", figure: drawings, illustrations: true}
)");
  ASSERT_EQ(all.tables.size(), 4u);
  ASSERT_TRUE(all.tables[0].figure);
  EXPECT_FALSE(all.tables[0].sweep);
  EXPECT_EQ(all.tables[0].title, "Figure 2");
  const SweepFigure& figure = *all.tables[0].figure;
  EXPECT_EQ(figure.name, "distance");
  ASSERT_EQ(figure.runs.size(), 2u);
  EXPECT_EQ(figure.runs[0].sweep, "one");
  EXPECT_EQ(figure.runs[0].variant, "a");
  EXPECT_EQ(figure.runs[0].label, "first");
  EXPECT_EQ(figure.runs[0].seed, 5u) << "the first seed of the variant";
  EXPECT_EQ(figure.runs[1].seed, 7u);
  EXPECT_TRUE(figure.before);
  EXPECT_EQ(figure.images, 8);
  EXPECT_EQ(figure.seed, 3);
  EXPECT_EQ(figure.token, 91);
  EXPECT_EQ(figure.pictures, (std::vector<std::string>{"attention_distance"}));
  ASSERT_TRUE(all.tables[3].figure);
  EXPECT_TRUE(all.tables[3].figure->runs.empty());
}

TEST_F(SweepCollections, FigureErrorsNameLineAndColumn) {
  const auto with = [&](const std::string& figure) {
    return error("sweeps:\n  - one.yaml\n  - two.yaml\n  - {title: T, figure: f, " + figure +
                 "}\n");
  };
  expect_contains(with("analyze: [one/a, ona/a]"),
                  "all.yaml:4:44: analyze: the collection has no sweep 'ona'; did you mean 'one'? "
                  "Sweeps: one, two");
  expect_contains(with("analyze: [one/aa]"), "the sweep one has no variant 'aa'");
  expect_contains(with("analyze: [two/b:2]"), "b has no seed '2'; its seeds are 1, 7");
  expect_contains(with("analyze: [b]"), "'b' is no run of a sweep; a run is written");
  expect_contains(with("analyze: [one/a, one/a]"), "'one/a' is there twice");
  expect_contains(with("analyze: one/a"), "all.yaml:4:36: analyze must be a list");
  expect_contains(with("analyze: []"), "analyze must be a list of names");
  expect_contains(with("analyze: [one/a], images: 0"), "images must be at least 1");
  expect_contains(with("analyze: [one/a], image: 9"), "did you mean 'images'?");
  expect_contains(with("before: true"), "either analyze: with a list of runs, or illustrations");
  expect_contains(with("analyze: [one/a], illustrations: true"), "either analyze:");
  expect_contains(with("illustrations: true, before: true"), "unknown key 'before'");
  expect_contains(error("sweeps: [one.yaml, {title: T, analyze: [one/a]}]\n"), "has a name");
  expect_contains(error("sweeps: [one.yaml, {figure: f, analyze: [one/a]}]\n"), "has a title");
  expect_contains(error("sweeps: [one.yaml, {title: T, figure: one, analyze: [one/a]}]\n"),
                  "the name 'one' is there twice");
  folder_.write("figures.yaml", "base: base.yaml\nvariants:\n  - {name: b}\n");
  expect_contains(error("sweeps: [figures.yaml, {title: T, figure: f, analyze: [figures/b]}]\n"),
                  "'figures' is the folder of the figures");
}

TEST_F(SweepCollections, TablesOfCosts) {
  const SweepCollection all = load(R"yaml(
sweeps:
  - one.yaml
  - title: "Table 7b"
    costs:
      base: base.yaml
      norms:
        - {norm: ln, parameters: 2C}
        - {norm: {type: dtn, variant: official}, label: DTN, operations: "O(BCT^2)"}
      notes: "counted"
)yaml",
                                   {"model.embed_dim=384"});
  ASSERT_EQ(all.tables.size(), 2u);
  EXPECT_FALSE(all.tables[0].costs);
  EXPECT_FALSE(all.tables[1].sweep);
  ASSERT_TRUE(all.tables[1].costs);
  const NormCosts& costs = *all.tables[1].costs;
  ASSERT_EQ(costs.rows.size(), 2u);
  EXPECT_EQ(costs.rows[0].label, "ln");
  EXPECT_EQ(costs.rows[0].paper_parameters, "2C");
  EXPECT_EQ(costs.rows[0].paper_operations, "");
  EXPECT_EQ(costs.rows[1].label, "DTN");
  EXPECT_EQ(costs.rows[1].paper_operations, "O(BCT^2)");
  EXPECT_EQ(*costs.rows[1].model.norm.find<std::string>("variant"), "official");
  EXPECT_EQ(costs.rows[1].model.embed_dim.at(0), 384);
  EXPECT_EQ(costs.notes, (std::vector<std::string>{"counted"}));
}

TEST_F(SweepCollections, ErrorsOfCostsNameLineAndColumn) {
  const auto error_in = [&](const std::string& costs) {
    return error("sweeps:\n  - title: T\n    costs: " + costs + "\n");
  };
  expect_contains(error_in("3"), "all.yaml:3:12: costs is a map of base, norms, notes");
  expect_contains(error_in("{norms: [{norm: ln}]}"), "all.yaml:3:12: costs: base is missing");
  expect_contains(error_in("{base: base.yaml}"), "all.yaml:3:12: costs: norms is missing");
  expect_contains(error_in("{base: base.yaml, norms: []}"), "norms must be a list of normalizers");
  expect_contains(error_in("{base: none.yaml, norms: [{norm: ln}]}"), "base: no file");
  expect_contains(error_in("{base: base.yaml, norms: [{norm: lm}]}"), "all.yaml:3:45: ");
  expect_contains(error_in("{base: base.yaml, norms: [{label: x}]}"), "costs: norm is missing");
  expect_contains(error_in("{base: base.yaml, norms: [{norm: ln, paper: 2}]}"),
                  "unknown key 'paper'");
  expect_contains(error("sweeps: [{title: T, not_yet: x, costs: {}}]\n"), "unknown key 'not_yet'");
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
