// The tables and figures of a sweep's results.
#include "apps/sweep/sweep_report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "dtn/config/load.h"
#include "dtn/tasks/registries.h"
#include "texts.h"

namespace dtn {
namespace {

using test::expect_contains;

// A report with all cases: several seeds, one seed, none, failures and open runs.
SweepReport example(const SweepConfig& sweep) {
  std::vector<VariantResult> results(3);
  results[0].runs = {{0, 80.25, 1900, 0, {{1, 79, 79}, {2, 80.25, 80.25}}},
                     {1, 80.75, 1950, 0, {{1, 78, 78}, {2, 80.75, 80.75}}}};
  results[0].metric = Statistics{2, 80.5, 80.25, 80.75, 0.353553390593};
  results[0].difference = 80.5 - 80.6;
  results[0].milestones = {{80, 2, 1.76}, {85, 0, {}}};
  results[0].images_per_second = 1925;
  results[0].cost.parameters = 5710312;
  results[1].variant = 1;
  results[1].runs = {{4, 81.5, 99.95, 0, {{1, 81.5, 81.5}}}};
  results[1].metric = Statistics{1, 81.5, 81.5, 81.5, {}};
  results[1].difference = 81.5 - 81.75;
  results[1].to_baseline = 1;
  results[1].paper_to_baseline = 1.15;
  results[1].milestones = {{80, 1, 1}, {85, 0, {}}};
  results[1].images_per_second = 99.95;
  results[1].cost.parameters = 999;
  results[1].open = {5, 6};
  results[2].variant = 2;
  results[2].failures[0] = {4, "training diverged, see /home/me/out/bn/seed-0/checkpoints"};
  results[2].failures[1] = {137, "Killed"};
  results[2].milestones = {{80, 0, {}}, {85, 0, {}}};
  results[2].cost.parameters = 1000;
  return {sweep, std::move(results), "/home/me/out",
          "dtn-sweep --config /home/me/t.yaml --set 'data.root=/data/my set'"};
}

SweepConfig example_sweep() {
  SweepConfig sweep;
  const std::vector<FigureSchema> figures = task_registry().at("classify").schema.figures;
  sweep.metric = {figures.front()};
  sweep.milestone_figure = figures.front();
  sweep.name = "t";
  sweep.title = "Table 3: it's | normalizers";
  sweep.milestones = {80, 85};
  sweep.baseline = 0;
  ExperimentConfig config = parse_experiment(
      "model: {preset: vit_t}\ndata: {dataset: idx, root: /usr/share/fashion-mnist}\n"
      "schedule: {epochs: 6}\n",
      "test", {}, standard_registries().schemas());
  sweep.variants = {{"ln", "LayerNorm", 80.6, {0, 1}, config},
                    {"dtn", "DTN | ours, \"new\"", 81.75, {4, 5, 6}, config},
                    {"bn", "bn", {}, {0, 1}, config}};
  sweep.variants[2].config.model.depth = 3;
  return sweep;
}

TEST(SweepReports, Markdown) {
  const SweepConfig sweep = example_sweep();
  EXPECT_EQ(to_markdown(example(sweep)),
            R"(# Table 3: it's | normalizers

fashion-mnist (idx); several models; 6 epochs; batches of 128 in fp32; several seeds

| variant            |    top-1 (%) | paper | difference | to LayerNorm | to LayerNorm in the paper | epochs to 80 % | epochs to 85 % | parameters | images/s |  seeds |
| :----------------- | -----------: | ----: | ---------: | -----------: | ------------------------: | -------------: | -------------: | ---------: | -------: | -----: |
| LayerNorm          | 80.50 ± 0.35 | 80.60 |      -0.10 |            - |                         - |           1.76 |              - |    5.710 M |     1925 |      2 |
| DTN \| ours, "new" |        81.50 | 81.75 |      -0.25 |        +1.00 |                     +1.15 |           1.00 |              - |        999 |    100.0 | 1 of 3 |
| bn                 |       failed |     - |          - |            - |                         - |              - |              - |    1.000 k |        - | 0 of 2 |

- Top-1 (%) of the last evaluation: mean ± sample standard deviation over the seeds.
- Epochs to a top-1: interpolated between two evaluations, mean over the seeds; -: no run reached it.
- `dtn`, seeds 5, 6: not finished.
- `bn`, seed 0: failed with exit code 4: training diverged, see bn/seed-0/checkpoints
- `bn`, seed 1: failed with signal 9: Killed

```sh
dtn-sweep --config .../t.yaml --set 'data.root=.../my set'
```
)");
}

// A sweep whose first two variants have a top-5 and a size in the paper.
SweepConfig sweep_with_sizes() {
  SweepConfig sweep = example_sweep();
  sweep.milestones.clear();
  sweep.baseline.reset();
  sweep.paper_figures = {task_registry().at("classify").schema.figures[1]};
  sweep.notes = {"A note: of | the sweep."};
  sweep.variants[0].paper_figures["top5"] = 95.2;
  sweep.variants[0].paper_parameters = 27800000;
  sweep.variants[0].paper_multiply_adds = 5770000000;
  sweep.variants[1].paper_parameters = 7800000;
  return sweep;
}

SweepReport report_with_sizes(const SweepConfig& sweep) {
  SweepReport report = example(sweep);
  for (VariantResult& r : report.results) {
    r.milestones.clear();
    r.figures = {std::nullopt};
    r.cost = {.parameters = 27776872,
              .paper_multiply_adds = 5736291840,
              .multiply_adds = 5736291840,
              .computed_multiply_adds = 5432100000};
  }
  report.results[0].figures = {Statistics{2, 95.25, 95, 95.5, 0.353553390593}};
  return report;
}

TEST(SweepReports, MarkdownWithTop5AndSizes) {
  const SweepConfig sweep = sweep_with_sizes();
  const std::string text = to_markdown(report_with_sizes(sweep));
  expect_contains(text,
                  "|   top-5 in % (paper) | parameters (paper) | multiply-adds (paper) | computed "
                  "| images/s |");
  expect_contains(text,
                  "| 95.25 ± 0.35 (95.20) |   27.78 M (27.8 M) |      5.736 G (5.77 G) |  5.432 G "
                  "|     1925 |");
  expect_contains(text, "|                    - |    27.78 M (7.8 M) |               5.736 G |");
  expect_contains(text, "\n\n- A note: of | the sweep.\n- Top-1 (%) of the last evaluation");
  expect_contains(text, "counted with a dense P as in the paper");
}

TEST(SweepReports, DataWithTop5AndSizes) {
  const SweepConfig sweep = sweep_with_sizes();
  const SweepReport report = report_with_sizes(sweep);
  const auto json = nlohmann::json::parse(to_json(report));
  EXPECT_EQ(json["notes"][0], "A note: of | the sweep.");
  const auto &first = json["variants"][0], &second = json["variants"][1];
  EXPECT_EQ(first["paper"], 80.6) << "a number, as it was before a row had more";
  EXPECT_EQ(first["paper_parameters"], 27800000);
  EXPECT_EQ(first["paper_multiply_adds"], 5770000000);
  EXPECT_EQ(first["multiply_adds"]["dense"].dump(), "5736291840");
  EXPECT_EQ(first["multiply_adds"]["computed"].dump(), "5432100000");
  EXPECT_EQ(first["figures"]["top5"]["paper"], 95.2);
  EXPECT_EQ(first["figures"]["top5"]["mean"], 95.25);
  EXPECT_TRUE(second["figures"]["top5"]["mean"].is_null());
  EXPECT_FALSE(second.contains("paper_multiply_adds"));
  const std::string csv = to_csv(report);
  expect_contains(csv,
                  ",paper_parameters,multiply_adds,computed_multiply_adds,"
                  "paper_multiply_adds,top5,paper_top5\n");
  expect_contains(csv, ",27800000,5736291840,5432100000,5770000000,95.25,95.2\n");
}

// Images of ImageNet-C's size have a CE by corruption, beside the paper's.
TEST(SweepReports, CorruptionErrorsBesideThePaper) {
  SweepConfig sweep = example_sweep();
  sweep.suites = {"imagenet-c"};
  sweep.variants[1].paper_suites["imagenet-c"] = {38.5, std::vector<double>(15, 40)};
  SweepReport report = example(sweep);
  // Before any evaluation, the paper's alone.
  TableText table = ce_table(report);
  EXPECT_EQ(table.columns, (std::vector<std::string>{"corruption", "DTN | ours, \"new\""}));
  ASSERT_EQ(table.rows.size(), 16u);
  EXPECT_EQ(table.rows[0], (std::vector<std::string>{"gaussian_noise", "- (40)"}));
  EXPECT_EQ(table.rows[14][0], "jpeg_compression");
  EXPECT_EQ(table.rows[15], (std::vector<std::string>{"mCE", "- (38.5)"}));

  const auto evaluated = [](double noise, double snow) {
    RobustnessResult result;
    result.figure = (noise + snow) / 2;
    result.corruptions = {{"clean", 20, {}}, {"gaussian_noise", 30, noise}, {"snow", 31, snow}};
    return std::map<std::string, RobustnessResult>{{"imagenet-c", result}};
  };
  report.results[0].runs[0].suites = evaluated(41, 43);
  report.results[0].runs[1].suites = evaluated(42, 43);
  report.results[1].runs[0].suites = evaluated(39.04, 37);
  table = ce_table(report);
  ASSERT_EQ(table.columns.size(), 3u);
  EXPECT_EQ(table.columns[1], "LayerNorm");
  EXPECT_EQ(table.rows[0][1], "41.5 ± 0.7");
  EXPECT_EQ(table.rows[0][2], "39.0 (40)");
  EXPECT_EQ(table.rows[1][1], "-");
  EXPECT_EQ(table.rows[7][2], "37.0 (40)");
  EXPECT_EQ(table.rows[15][2], "38.0 (38.5)") << "without the clean images";
  const std::string text = to_markdown(report);
  expect_contains(text, "## Top-1 error (%) by corruption");
  expect_contains(text, "\n\n## Corruption error CE (%), in parentheses the paper's\n\n| corr");
  const auto json = nlohmann::json::parse(to_json(report))["variants"][1];
  EXPECT_EQ(json["suites"]["imagenet-c"]["errors"]["gaussian_noise"]["ce"], 39.04);
  EXPECT_EQ(json["paper_suites"]["imagenet-c"]["figure"], 38.5);
  EXPECT_EQ(json["paper_suites"]["imagenet-c"]["ce"].size(), 15u);

  report.results[0].runs[0].suites["imagenet-c"].small_images = true;
  EXPECT_TRUE(ce_table(report).columns.empty()) << "small images have no CE";
}

TEST(SweepReports, SizesHaveFourDigits) {
  EXPECT_EQ(count_text(0), "0");
  EXPECT_EQ(count_text(999), "999");
  EXPECT_EQ(count_text(1000), "1.000 k");
  EXPECT_EQ(count_text(116314), "116.3 k");
  EXPECT_EQ(count_text(999949), "999.9 k");
  EXPECT_EQ(count_text(999950), "1.000 M");
  EXPECT_EQ(count_text(22050664), "22.05 M");
  EXPECT_EQ(count_text(305e6), "305.0 M");
  EXPECT_EQ(count_text(17.58e9), "17.58 G");
  EXPECT_EQ(count_text(2.5e12), "2.500 T");
}

TEST(SweepReports, UsesNounOfData) {
  SweepConfig sweep = example_sweep();
  sweep.variants[0].config.model.max_length = 200;
  EXPECT_EQ(rate_title(sweep), "samples/s");
  for (SweepVariant& v : sweep.variants) {
    v.config.model.max_length = 200;
    v.config.model.depth = 12;
  }
  EXPECT_EQ(rate_title(sweep), "sequences/s");
  const std::string text = to_markdown(example(sweep));
  EXPECT_NE(text.find("; vit_t at 200 tokens (192 channels, 12 blocks, 3 heads); "),
            std::string::npos)
      << text;
}

TEST(SweepReports, PictureFollowsNotes) {
  const SweepConfig sweep = example_sweep();
  SweepReport report = example(sweep);
  report.picture = true;
  expect_contains(to_markdown(report),
                  "Killed\n\n![results](values.svg)\n\n![curves](curves.svg)\n\n```sh\n");
}

TEST(SweepReports, Csv) {
  const SweepConfig sweep = example_sweep();
  EXPECT_EQ(to_csv(example(sweep)),
            "variant,label,n,mean,std,min,max,paper,difference,to_baseline,paper_to_baseline,"
            "epochs_to_80,epochs_to_85,parameters,images_per_second,failed,"
            "paper_parameters,multiply_adds,computed_multiply_adds,paper_multiply_adds\n"
            "ln,LayerNorm,2,80.5,0.353553390593,80.25,80.75,80.6,-0.09999999999999432,,,1.76,,"
            "5710312,1925.0,0,,0,0,\n"
            "dtn,\"DTN | ours, \"\"new\"\"\",1,81.5,,81.5,81.5,81.75,-0.25,1.0,1.15,1.0,,"
            "999,99.95,0,,0,0,\n"
            "bn,bn,0,,,,,,,,,,,1000,,2,,0,0,\n");
}

TEST(SweepReports, Json) {
  const SweepConfig sweep = example_sweep();
  const std::string json = to_json(example(sweep));
  for (const char* part :
       {R"("metric": "top1")", R"("weights": "raw")", R"("baseline": "ln")", R"("std": null)",
        R"("mean": 80.5)", R"("paper": null)", R"("code": 137)", R"("epochs": 1.76)",
        R"("command": "dtn-sweep --config .../t.yaml --set 'data.root=.../my set'")",
        R"(see bn/seed-0/checkpoints)", R"("config_hash": ")", R"("versions": {)"}) {
    expect_contains(json, part);
  }
  EXPECT_EQ(json.find("/home"), std::string::npos) << json;
  EXPECT_EQ(json, to_json(example(sweep)));
  // The hash covers the settings that determine the results.
  const auto hash = [&](auto change) {
    SweepConfig other = example_sweep();
    change(other.variants[0].config);
    const std::string text = to_json(example(other));
    return text.substr(text.find("config_hash"), 32);
  };
  const std::string plain = hash([](ExperimentConfig&) {});
  EXPECT_EQ(plain, hash([](ExperimentConfig& c) { c.seed = 9; }));
  EXPECT_EQ(plain, hash([](ExperimentConfig& c) { c.data.workers = 9; }));
  EXPECT_NE(plain, hash([](ExperimentConfig& c) { c.optim.lr *= 2; }));
}

TEST(SweepReports, Curves) {
  SweepConfig sweep = example_sweep();
  const std::string svg = curves_svg(example(sweep));
  const std::size_t second = svg.find(">DTN | ours"), first = svg.find(">LayerNorm<");
  ASSERT_NE(second, std::string::npos) << svg;
  ASSERT_NE(first, std::string::npos) << svg;
  expect_contains(svg, "from best to worst: DTN | ours, &quot;new&quot;, LayerNorm");
  EXPECT_LT(first, second) << "the legend is in the order of the variants";
  EXPECT_EQ(svg.find(">bn<"), std::string::npos) << "bn has no curve";
  expect_contains(svg, ">top-1 (%)<");
  expect_contains(svg, "1 to 2 seeds; bands: minimum to maximum");
  sweep.metric.figure = {"loss", "loss", false, false};
  expect_contains(curves_svg(example(sweep)), "from best to worst: LayerNorm, DTN");
}

TEST(SweepReports, ChartComparesValuesWithPaper) {
  SweepConfig sweep = example_sweep();
  const std::string svg = values_svg(example(sweep));
  for (const char* part : {">here<", ">in the paper<", ">bn<", ">LayerNorm<"}) {
    expect_contains(svg, part);
  }
  for (SweepVariant& variant : sweep.variants) variant.paper.reset();
  EXPECT_EQ(values_svg(example(sweep)).find("in the paper"), std::string::npos);
}

TEST(SweepReports, RemovesMachinePaths) {
  const auto cut = [](const char* text) { return without_paths(text, "/x/out"); };
  EXPECT_EQ(cut("no paths at 12 images/s or 3/4 or w/o"), "no paths at 12 images/s or 3/4 or w/o");
  EXPECT_EQ(cut("in /x/out/ln/seed-0/log: bad"), "in ln/seed-0/log: bad");
  EXPECT_EQ(cut("'/data/a b/c', (/etc/y.yaml:3:4) x=/q/r"),
            "'.../a b/c', (.../y.yaml:3:4) x=.../r");
  EXPECT_EQ(cut("/top"), ".../top");
  EXPECT_EQ(cut("a / b /"), "a / b /");
  EXPECT_EQ(without_paths("x out/ln/log", "out"), "x ln/log");
  EXPECT_EQ(without_paths("out/out/seed-0, lay/out/x", "out"), "out/seed-0, lay/out/x");
  EXPECT_EQ(cut(""), "");
  EXPECT_EQ(cut("/x/out/"), "");
  EXPECT_EQ(without_paths("./a/b", "."), "./a/b");
}

}  // namespace
}  // namespace dtn
