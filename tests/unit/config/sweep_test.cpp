// Sweep files: content, inheritance, and errors with place and reason.
#include "config/sweeps/sweep_config.h"
#include "unit/config/helpers.h"

namespace dtn::testing {
namespace {

// A folder with a base config.
class Sweeps : public ::testing::Test {
 protected:
  Sweeps() {
    folder_.write("base.yaml",
                  "name: base\nseed: 7\nmodel: {preset: vit_t, norm: ln}\n"
                  "schedule: {epochs: 9}\ntrain: {batch_size: 32}\n");
  }

  SweepConfig load(const std::string& text, const std::vector<std::string>& set = {},
                   const std::string& name = "s.yaml") {
    return load_sweep(folder_.write(name, text), set, fake_schemas());
  }
  std::string error(const std::string& text, const std::vector<std::string>& set = {}) {
    return error_of([&] { load(text, set); });
  }
  // A sweep of one variant, with `more` at the top level.
  static std::string one(const std::string& more) {
    return "base: base.yaml\nvariants:\n  - {name: a}\n" + more + "\n";
  }

  TempFolder folder_;
};

TEST_F(Sweeps, ReadsEveryKey) {
  const SweepConfig s = load(R"(
name: table3
title: "Table 3: normalizers"
base: base.yaml
set: {schedule.epochs: 6, train: {batch_size: 64}}
seeds: [0, 1, 18446744073709551615]
metric: best_top1
milestones: [80, 85.5]
baseline: ln
variants:
  - {name: ln, label: "LayerNorm, plain", paper: 80.6}
  - name: dtn
    set: {model.norm: dtn, model.norm.variant: official, optim.lr: 1e-3, schedule.epochs: 7}
    seeds: [5]
    paper: 81.7
)",
                             {"optim.lr=2e-3"});
  EXPECT_EQ(s.name, "table3");
  EXPECT_EQ(s.title, "Table 3: normalizers");
  EXPECT_EQ(s.metric.name(), "best_top1");
  EXPECT_EQ(s.milestones, (std::vector<double>{80, 85.5}));
  EXPECT_EQ(s.baseline, 0u);
  ASSERT_EQ(s.variants.size(), 2u);
  const SweepVariant &ln = s.variants[0], &dtn = s.variants[1];
  EXPECT_EQ(ln.label, "LayerNorm, plain");
  EXPECT_EQ(dtn.label, "dtn");
  EXPECT_EQ(ln.paper, 80.6);
  EXPECT_EQ(ln.seeds, (std::vector<std::uint64_t>{0, 1, ~std::uint64_t{0}}));
  EXPECT_EQ(dtn.seeds, (std::vector<std::uint64_t>{5}));
  EXPECT_EQ(ln.config.name, "table3-ln");
  EXPECT_EQ(ln.config.schedule.epochs, 6);
  EXPECT_EQ(ln.config.train.batch_size, 64);
  EXPECT_EQ(ln.config.model.norm.type, "ln");
  // The variant's keys override the sweep's, and --set overrides both.
  EXPECT_EQ(dtn.config.schedule.epochs, 7);
  EXPECT_EQ(dtn.config.model.norm.type, "dtn");
  EXPECT_EQ(*dtn.config.model.norm.find<std::string>("variant"), "official");
  EXPECT_EQ(dtn.config.optim.lr, 2e-3);
  EXPECT_EQ(dtn.config.seed, 5u);
}

TEST_F(Sweeps, Defaults) {
  const SweepConfig s = load("base: base.yaml\nvariants: [{name: a}]\n", {}, "my_sweep.yaml");
  EXPECT_EQ(s.name, "my_sweep");
  EXPECT_EQ(s.title, "my_sweep");
  EXPECT_EQ(s.metric.name(), "top1");
  EXPECT_FALSE(s.ema);
  EXPECT_FALSE(s.baseline);
  EXPECT_EQ(s.variants[0].seeds, (std::vector<std::uint64_t>{7}));  // the seed of the config
  EXPECT_FALSE(s.variants[0].paper);
}

TEST_F(Sweeps, FindsBasesInFolderAndShippedConfigs) {
  folder_.write("deep/other.yaml", "base: ../base.yaml\nmodel: {depth: 3}\n");
  const SweepConfig s =
      load("base: fashion_mnist_ln\nvariants: [{name: a}, {name: b, base: deep/other.yaml}]\n");
  EXPECT_EQ(s.variants[0].config.data.dataset, "idx");
  EXPECT_EQ(s.variants[1].config.model.depth, 3);
  EXPECT_EQ(s.variants[1].config.schedule.epochs, 9);
}

TEST_F(Sweeps, NewNormalizerDropsOldOptions) {
  const SweepConfig s = load(R"(
base: base.yaml
set: {model.norm: {type: dtn, variant: official}}
variants: [{name: a}, {name: b, set: {model.norm.type: gn}}, {name: c, set: {schedule.steps: 5}}]
)");
  EXPECT_EQ(*s.variants[0].config.model.norm.find<std::string>("variant"), "official");
  EXPECT_EQ(s.variants[1].config.model.norm.type, "gn");
  EXPECT_FALSE(s.variants[2].config.schedule.epochs);
  EXPECT_EQ(s.variants[2].config.schedule.steps, 5);
}

TEST_F(Sweeps, Inheritance) {
  folder_.write("full/full.yaml", R"(
name: full
title: "All of it"
base: ../base.yaml
set: {optim.lr: 1e-3, train.batch_size: 64}
seeds: [0, 1]
milestones: [50]
baseline: a
variants:
  - {name: a, paper: 70}
  - {name: b, paper: 71, label: B, set: {model.depth: 4}}
  - {name: c, paper: 72}
)");
  const SweepConfig s = load(R"(
base_sweep: full/full.yaml
set: {schedule.steps: 3, train.batch_size: 16}
only: [a, b, new]
variants:
  - {name: b, paper: null, set: {optim.weight_decay: 0.5}}
  - {name: new, base: base.yaml}
)",
                             {}, "mini.yaml");
  EXPECT_EQ(s.name, "mini");  // not the name of the base sweep
  EXPECT_EQ(s.title, "mini");
  EXPECT_EQ(s.milestones, (std::vector<double>{50}));
  EXPECT_EQ(s.baseline, 0u);
  ASSERT_EQ(s.variants.size(), 3u);
  EXPECT_EQ(s.variants[0].paper, 70);
  EXPECT_EQ(s.variants[1].label, "B");
  EXPECT_FALSE(s.variants[1].paper);
  EXPECT_EQ(s.variants[1].config.model.depth, 4);
  EXPECT_EQ(s.variants[1].config.optim.weight_decay, 0.5);
  EXPECT_EQ(s.variants[2].name, "new");
  for (const SweepVariant& v : s.variants) {
    EXPECT_EQ(v.seeds.size(), 2u);
    EXPECT_EQ(v.config.optim.lr, 1e-3);
    EXPECT_EQ(v.config.schedule.steps, 3);
    EXPECT_EQ(v.config.train.batch_size, 16);
  }
}

TEST_F(Sweeps, RowsOfThePaper) {
  const SweepConfig s = load(R"(
base: base.yaml
metric: best_top1
variants:
  - {name: a, paper: {top1: 72.2, top5: 91.3, params: 5.7M, flops: 1.26G}}
  - {name: b, paper: {params: 5710672, flops: null}}
  - {name: c, paper: 73}
  - {name: d, paper: {loss: 2.5, flops: 305M}}
)");
  EXPECT_EQ(s.variants[0].paper, 72.2);
  EXPECT_EQ(s.variants[0].paper_figures, (std::map<std::string, double>{{"top5", 91.3}}));
  EXPECT_EQ(s.variants[0].paper_parameters, 5700000);
  EXPECT_EQ(s.variants[0].paper_multiply_adds, 1260000000);
  EXPECT_FALSE(s.variants[1].paper);
  EXPECT_EQ(s.variants[1].paper_parameters, 5710672);
  EXPECT_FALSE(s.variants[1].paper_multiply_adds);
  EXPECT_EQ(s.variants[2].paper, 73);
  EXPECT_FALSE(s.variants[2].paper_parameters);
  EXPECT_EQ(s.variants[3].paper_multiply_adds, 305000000);
  ASSERT_EQ(s.paper_figures.size(), 2u) << "in the order of the task";
  EXPECT_EQ(s.paper_figures[0].name, "top5");
  EXPECT_EQ(s.paper_figures[1].name, "loss");

  // Another metric makes top-1 one of the other figures.
  const SweepConfig loss = load(R"(
base: base.yaml
metric: loss
variants: [{name: a, paper: {top1: 72.2, loss: 1}}, {name: b, paper: 2}]
)");
  EXPECT_EQ(loss.variants[0].paper, 1);
  EXPECT_EQ(loss.variants[1].paper, 2);
  EXPECT_EQ(loss.paper_figures.at(0).name, "top1");
  // The figures are those of the task.
  EXPECT_EQ(load("base: base.yaml\nset: {task: regress}\n"
                 "variants: [{name: a, paper: {error: 200, params: 1k}}]\n")
                .variants[0]
                .paper,
            200);
}

TEST_F(Sweeps, InheritedRowOfThePaperIsReplaced) {
  folder_.write("full.yaml",
                "base: base.yaml\nnotes: [one, two]\nvariants:\n"
                "  - {name: a, paper: {top1: 72.2, params: 5.7M}}\n"
                "  - {name: b, paper: {top1: 73, params: 6M}}\n");
  const SweepConfig s = load("base_sweep: full.yaml\nvariants: [{name: a, paper: 71}]\n");
  EXPECT_EQ(s.variants[0].paper, 71);
  EXPECT_FALSE(s.variants[0].paper_parameters);
  EXPECT_EQ(s.variants[1].paper_parameters, 6000000);
  EXPECT_EQ(s.notes, (std::vector<std::string>{"one", "two"}));
  EXPECT_EQ(load("base_sweep: full.yaml\nnotes: three\n").notes,
            (std::vector<std::string>{"three"}));
  EXPECT_TRUE(load("base_sweep: full.yaml\nnotes: null\n").notes.empty());
  EXPECT_TRUE(load("base_sweep: full.yaml\nnotes: []\n").notes.empty());
}

TEST_F(Sweeps, CorruptionErrorsOfThePaper) {
  const SweepConfig s = load(R"(
base: base.yaml
variants:
  - {name: a, paper_suites: {imagenet-c: 42.8, imagenet-r: 30.7}}
  - name: b
    paper_suites:
      imagenet-c: {mce: 38, ce: [36, 37, 37, 45, 55, 41, 54, 36, 35, 31, 23, 30, 41, 34, 33.5]}
)");
  const PaperSuite &a = s.variants[0].paper_suites.at("imagenet-c"),
                   &b = s.variants[1].paper_suites.at("imagenet-c");
  EXPECT_EQ(a.figure, 42.8);
  EXPECT_TRUE(a.corruption_errors.empty());
  EXPECT_EQ(s.variants[0].paper_suites.at("imagenet-r").figure, 30.7);
  EXPECT_EQ(b.figure, 38);
  ASSERT_EQ(b.corruption_errors.size(), 15u);
  EXPECT_EQ(b.corruption_errors.front(), 36);
  EXPECT_EQ(b.corruption_errors.back(), 33.5);
}

TEST_F(Sweeps, ErrorsInRowsOfThePaper) {
  const auto in_variant = [&](const std::string& key, const std::string& value) {
    return error("base: base.yaml\nvariants:\n  - name: a\n    " + key + ": " + value + "\n");
  };
  const std::pair<const char*, std::vector<const char*>> papers[] = {
      {"{top2: 3}",
       {"s.yaml:4:19", "unknown figure 'top2'; did you mean 'top1'?", "params, flops"}},
      {"{top5: 101}", {"s.yaml:4:19", "paper.top5 must be in [0, 100], not 101"}},
      {"{top1: high}", {"s.yaml:4:19", "paper.top1 must be a finite number, not 'high'"}},
      {"{params: 22.1}",
       {"s.yaml:4:21",
        "paper.params must be a count such as 22.1M, 5.77G or 22050664, not '22.1'"}},
      {"{params: 22.1X}", {"must be a count", "not '22.1X'"}},
      {"{params: M}", {"must be a count"}},
      {"{params: [1]}", {"must be a count", "a list"}},
      {"{params: -5M}", {"paper.params must be in [1, 1.0e+15], not -5M"}},
      {"{params: 0}", {"must be in [1, 1.0e+15], not 0"}},
      {"{flops: 1e30}", {"s.yaml:4:20", "paper.flops must be in [1, 1.0e+15], not 1e30"}},
      {"{flops: 9e9T}", {"must be in [1, 1.0e+15], not 9e9T"}},
      {"[1]", {"s.yaml:4:12", "paper must be a finite number"}},
  };
  for (const auto& [value, parts] : papers) {
    SCOPED_TRACE(value);
    const std::string message = in_variant("paper", value);
    for (const char* part : parts) expect_contains(message, part);
  }
  const std::pair<const char*, std::vector<const char*>> suites[] = {
      {"{imagenet-c: {mce: -1}}",
       {"s.yaml:4:38", "paper_suites.imagenet-c.mce must be at least 0"}},
      {"{imagenet-c: {ce: [1, 2]}}",
       {"s.yaml:4:37", "ce must be a list of 15 corruption errors", "not 2"}},
      {"{imagenet-c: {ce: 3}}", {"must be a list of 15"}},
      {"{imagenet-c: {gauss: 3}}", {"unknown key 'gauss'", "mce, ce"}},
      {"{imagenet-r: {mce: 3}}", {"paper_suites.imagenet-r must be a finite number, not a map"}},
      {"{imagenet-d: 3}", {"unknown key 'imagenet-d'"}},
  };
  for (const auto& [value, parts] : suites) {
    SCOPED_TRACE(value);
    const std::string message = in_variant("paper_suites", value);
    for (const char* part : parts) expect_contains(message, part);
  }
  expect_contains(error(one("notes: {a: 1}")), "s.yaml:4:8: notes");
  expect_contains(error(one("notes: ['']")), "notes is empty");
}

TEST_F(Sweeps, EmaWeightsNeedTrainEma) {
  EXPECT_TRUE(load(one("weights: ema\nset: {train.ema: 0.9}")).ema);
  const std::string message = error(one("weights: ema"));
  expect_contains(message, "s.yaml:4:10: weights: ema, but train.ema is not set");
  expect_contains(message, "(variant 'a')");
}

TEST_F(Sweeps, ErrorsNameLineAndColumn) {
  const std::pair<const char*, std::vector<const char*>> cases[] = {
      {"base: base.yaml\n", {"s.yaml:1:1", "without variants", "variants:"}},
      {"base: base.yaml\nvariants: []\n", {"without variants"}},
      {"", {"a sweep is a map of"}},
      {"[1, 2]", {"a sweep is a map of", "not a list"}},
      {"base: base.yaml\nvariants: {a: 1}\n", {"s.yaml:2:11", "must be a list, not a map"}},
      {"base: base.yaml\nvariants: [a]\n", {"s.yaml:2:12", "a variant is a map of name"}},
      {"base: base.yaml\nvariants: [{label: x}]\n", {"s.yaml:2:12", "has no name"}},
      {"variants: [{name: a}]\n", {"s.yaml:1:12", "base:", "(variant 'a')"}},
      {"base: none.yaml\nvariants: [{name: a}]\n", {"s.yaml:1:7", "base: no file", "none.yaml"}},
      {"base: base.yaml\nvariants:\n  - {name: a}\n  - {name: a}\n",
       {"s.yaml:4:12", "two variants are named 'a'", "line 3"}},
      {"base: base.yaml\nvariants: [{name: a, sett: {}}]\n",
       {"s.yaml:2:22", "unknown key 'sett'; did you mean 'set'?", "Keys of a variant"}},
      {"milestone: [1]\nbase: base.yaml\nvariants: [{name: a}]\n",
       {"s.yaml:1:1", "unknown key 'milestone'; did you mean 'milestones'?", "Keys of a sweep"}},
      {"schedule: {epochs: 3}\nbase: base.yaml\nvariants: [{name: a}]\n",
       {"s.yaml:1:1", "unknown key 'schedule'; keys of a config go below set:"}},
      {"base: base.yaml\nset: {schedule.epoch: 3}\nvariants: [{name: a}]\n",
       {"s.yaml:2:7", "did you mean 'schedule.epochs'?"}},
      {"base: base.yaml\nset: 3\nvariants: [{name: a}]\n", {"s.yaml:2:6", "set must be a map"}},
      {"base: base.yaml\nset: {seed: 3}\nvariants: [{name: a}]\n", {"s.yaml:2:7", "seeds:"}},
      {"base: base.yaml\nvariants: [{name: a, set: {name: x}}]\n", {"s.yaml:2:28", "name"}},
      {"base: base.yaml\nset:\n  optim.lr: 1\n  optim: {lr: 2}\nvariants: [{name: a}]\n",
       {"s.yaml:4:11", "'lr' is set twice", "line 3"}},
      {"base: base.yaml\nset: {model.norm: ln, model: {norm: gn}}\nvariants: [{name: a}]\n",
       {"s.yaml:2:31", "'norm' is set twice"}},
      {"base: base.yaml\nset: {model.norm: ln, model.norm.type: gn}\nvariants: [{name: a}]\n",
       {"s.yaml:2:23", "'type' is set twice"}},
      {"base: base.yaml\nset: {optim.lr: 1, optim.lr.x: 2}\nvariants: [{name: a}]\n",
       {"s.yaml:2:20", "'lr' is set twice"}},
      {"base: base.yaml\nvariants:\n  - name: a\n    set: {model.norm.type: lm}\n",
       {"s.yaml:4:28", "'lm'", "(variant 'a')"}},
      {"base: base.yaml\nvariants:\n  - name: a\n  - name: b\n    set: {model.num_heads: 5}\n",
       {"s.yaml:5:28", "not divisible by model.num_heads 5", "(variant 'b')"}},
      {"base: base.yaml\nvariants: [{name: a, paper: high}]\n",
       {"s.yaml:2:29", "paper must be a finite number, not 'high'"}},
      {"base: base.yaml\nvariants: [{name: a, paper: 101}]\n",
       {"s.yaml:2:29", "paper must be in [0, 100], not 101"}},
      {"base: base.yaml\nvariants: [{name: a, paper: nan}]\n", {"finite"}},
  };
  for (const auto& [text, parts] : cases) {
    SCOPED_TRACE(text);
    const std::string message = error(text);
    for (const char* part : parts) expect_contains(message, part);
  }
}

TEST_F(Sweeps, RejectsWrongValues) {
  const std::pair<const char*, const char*> cases[] = {
      {"metric: top2",
       "metric must be one of top1, top5, loss, best_top1, best_top5, best_loss, not 'top2'"},
      {"weights: average", "weights must be one of raw, ema"},
      {"seeds: 3", "seeds must be a list"},
      {"seeds: []", "seeds must be a list"},
      {"seeds: [1, 1]", "seeds: 1 is there twice"},
      {"seeds: [-1]", "whole number"},
      {"seeds: [1.5]", "whole number"},
      {"milestones: [0]", "milestones must be in (0, 100]"},
      {"milestones: [80, 70]", "milestones must increase, 70 comes after 80"},
      {"milestones: [80, 80]", "milestones must increase"},
      {"milestones: high", "finite number"},
      {"baseline: b", "baseline: there is no variant 'b'. Variants: a"},
      {"only: [c]", "only: there is no variant 'c'"},
      {"only: a", "only must be a list"},
      {"only: []", "only must be a list"},
      {"title: ''", "title is empty"},
      {"title: \"a\\nb\"", "single line"},
      {"name: a/b", "cannot name a folder"},
      {"base_sweep: none", "base_sweep: no file"},
      {"base_sweep: [a]", "base_sweep must be text"},
      {"base_sweep: s.yaml", "goes round in a circle"},
  };
  for (const auto& [more, part] : cases) {
    SCOPED_TRACE(more);
    const std::string message = error(one(more));
    expect_contains(message, part);
    expect_contains(message, "s.yaml:4:");
  }
}

TEST_F(Sweeps, MetricsComeFromTask) {
  const std::string task = "set: {task: regress}\n";
  const SweepConfig s = load(one(task + "metric: best_error\nmilestones: [200, 0.5, -3]\n"));
  EXPECT_EQ(s.metric.name(), "best_error");
  EXPECT_FALSE(s.metric.figure.higher_is_better);
  EXPECT_EQ(s.milestone_figure.name, "error");
  EXPECT_EQ(s.milestones, (std::vector<double>{200, 0.5, -3}));
  EXPECT_EQ(load(one(task)).metric.name(), "error");
  expect_contains(error(one(task + "metric: top1\n")),
                  "metric must be one of error, best_error, not 'top1'");
  expect_contains(error(one(task + "milestones: [1, 2]\n")),
                  "milestones must decrease, 2 comes after 1");
  expect_contains(error(one("set: {task: dream}\n")), "the task dream says of no figure");
  expect_contains(
      error("base: base.yaml\nvariants: [{name: a}, {name: b, set: {task: regress}}]\n"),
      "the tasks of 'a' (classify) and 'b' (regress) share none");
}

TEST_F(Sweeps, VariantNamesAreValidFolderNames) {
  for (const char* name : {"a/b", "..", ".a", "-a", "a b", "a:0", "a,b", "ä", "''", "table.md",
                           "curves.x", "sweep.lock", "a.tmp-1", "'a\tb'", "[x]"}) {
    SCOPED_TRACE(name);
    const std::string text = cat("base: base.yaml\nvariants:\n  - name: ", name, "\n");
    expect_contains(error(text), "s.yaml:3:");
  }
  error("base: base.yaml\nvariants: [{name: " + std::string(81, 'a') + "}]\n");
  for (const char* name : {"a", "lambda_0.5", "k-9+x", "0", "tables"}) {
    EXPECT_EQ(load(cat("base: base.yaml\nvariants: [{name: ", name, "}]\n")).variants[0].name,
              name);
  }
}

TEST_F(Sweeps, CommandLineOverrides) {
  EXPECT_EQ(load(one(""), {"schedule.epochs=2"}).variants[0].config.schedule.epochs, 2);
  expect_contains(error(one(""), {"seed=3"}), "--only VARIANT:SEED");
  expect_contains(error(one(""), {"name = x"}), "gives each run its own name");
  const std::string message = error(one(""), {"optim.lr=fast"});
  expect_contains(message, "--set optim.lr=fast");
  expect_contains(message, "(variant 'a')");
}

TEST_F(Sweeps, HostileFiles) {
  error(one("set: {" + std::string(4000, 'a') + ": 1}"));
  std::string dotted = "a";
  for (int i = 0; i < 400; ++i) dotted += ".a";
  expect_contains(error(one("set: {" + dotted + ": 1}")), "not a key of a config");
  for (const char* key : {"''", ".", "a.", ".a", "model..norm", "model.", "..."}) {
    SCOPED_TRACE(key);
    error(one(cat("set: {", key, ": 1}")));
  }
  error(one("set: &x {optim.lr: 1}"));
  error(one("set: [" + std::string(200, '[')));
  error(std::string("base: base.yaml\0\n", 17));
  error("\xff\xfe");
  std::string many = "base: base.yaml\nvariants:\n";
  for (int i = 0; i < 1001; ++i) many += cat("  - {name: v", i, "}\n");
  expect_contains(error(many), "more than 1000 variants");
  std::string seeds = "0";
  for (int i = 1; i < 1001; ++i) seeds += cat(", ", i);
  error(one("seeds: [" + seeds + "]"));
  error_of([&] { load_sweep(folder_.path().string(), {}, fake_schemas()); });
  error_of([&] { load_sweep((folder_.path() / "absent").string(), {}, fake_schemas()); });
  std::string tower = "base.yaml";
  for (int i = 0; i < 20; ++i) {
    folder_.write(cat("t", i, ".yaml"),
                  one(i ? cat("base_sweep: t", i - 1, ".yaml") : std::string()));
  }
  expect_contains(error("base_sweep: t19.yaml\n"), "files deep");
}

TEST(ConfigDifferences, ListEveryChangedKey) {
  const ExperimentConfig a = parse("model: {preset: vit_t, norm: dtn}\nschedule: {steps: 5}\n");
  EXPECT_TRUE(config_differences(a, a).empty());
  ExperimentConfig b = a;
  b.optim.lr = 1;
  b.schedule.steps = 6;
  EXPECT_EQ(config_differences(a, b),
            (std::vector<std::string>{"optim.lr is 1, was 5.0e-04", "schedule.steps is 6, was 5"}));
  const ExperimentConfig c = parse("model: {preset: vit_t, norm: gn}\nschedule: {steps: 5}\n");
  const auto changed = config_differences(a, c);
  const auto has = [&](const char* line) {
    return std::find(changed.begin(), changed.end(), line) != changed.end();
  };
  EXPECT_TRUE(has("model.norm.type is gn, was dtn"));
  EXPECT_TRUE(has("model.norm.groups is 4, was not set"));
  EXPECT_TRUE(has("model.norm.variant is not set, was paper"));
}

}  // namespace
}  // namespace dtn::testing
