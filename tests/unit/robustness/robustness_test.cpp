// Suites: arithmetic, folders, classes and saved results. tests/e2e/robustness.sh runs whole
// suites.
#include "apps/robustness/robustness.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "apps/robustness/robustness_plan.h"
#include "apps/robustness/robustness_results.h"
#include "dtn/data/datasets.h"
#include "dtn/models/weights.h"
#include "tiny_vit.h"
#include "unit/data/data_fixtures.h"

namespace dtn {
namespace {

using namespace dtn::test;
namespace fs = std::filesystem;
using Json = nlohmann::json;

TEST(Corruptions, Benchmark) {
  ASSERT_EQ(corruptions().size(), 19u);
  EXPECT_EQ(find_corruption("elastic_transform"), &corruptions()[12]);
  EXPECT_EQ(find_corruption("elastic"), nullptr);
  double sum = 0;
  for (std::size_t i = 0; i < corruptions().size(); ++i) {
    sum += alexnet_error(corruptions()[i]);
    EXPECT_EQ(alexnet_error(corruptions()[i]) == 0, i >= kBenchmarkCorruptions);
  }
  EXPECT_NEAR(sum / 15, 0.78899307, 1e-8);  // the paper's Table 1 has 78.9
}

TEST(Corruptions, Errors) {
  SeverityErrors errors = {10, 20, 30, 40, 50};
  EXPECT_DOUBLE_EQ(*mean_error(errors), 30);
  // The sum of the errors by the sum of AlexNet's: 150 / (5 x 0.886428).
  EXPECT_NEAR(*corruption_error(corruptions()[0], errors), 33.84369627313217, 1e-12);
  EXPECT_FALSE(corruption_error(*find_corruption("spatter"), errors));
  errors[3].reset();
  EXPECT_FALSE(mean_error(errors));
  EXPECT_FALSE(corruption_error(corruptions()[0], errors));
}

TEST(Corruptions, MeanCorruptionError) {
  std::vector<SeverityErrors> errors(corruptions().size());
  EXPECT_EQ(summarize(errors).corruptions, 0u);
  EXPECT_FALSE(summarize(errors).mean_ce);
  for (std::size_t i = 0; i < errors.size(); ++i) {
    errors[i].fill(100 * alexnet_error(corruptions()[i]));
  }
  EXPECT_NEAR(*summarize(errors).mce(), 100, 1e-12);  // AlexNet's errors, without the extra four
  EXPECT_NEAR(*summarize(errors).mean_error, 78.899307, 1e-6);
  for (SeverityErrors& e : errors) e.fill(50);
  const double of_all = 64.67257300;  // 50 / 15 x the sum of 1 / AlexNet's errors
  EXPECT_NEAR(*summarize(errors).mce(), of_all, 1e-7);
  EXPECT_NEAR(*summarize(std::span(errors).first(15)).mce(), of_all, 1e-7);
  errors[1][4].reset();
  for (std::size_t i = 3; i < errors.size(); ++i) errors[i] = {};
  const CorruptionSummary some = summarize(errors);
  EXPECT_EQ(some.corruptions, 2u);
  EXPECT_FALSE(some.mce());
  EXPECT_NEAR(*some.mean_ce, (50 / .886428 + 50 / .922640) / 2, 1e-12);
  EXPECT_DOUBLE_EQ(*some.mean_error, 50);
}

TEST(ClassChoice, SelectsColumnsAndMapsLabels) {
  const Tensor logits = Tensor::from(std::vector<float>{0, 9, 2, 7, 4, 5, 1, 0, 3, 2}, {2, 5});
  const Tensor labels = Tensor::from(std::vector<std::int64_t>{3, 4}, {2});
  const std::vector<std::int64_t> classes = {0, 3, 4};
  const Tensor chosen = logits_of(logits, classes);
  const Tensor places = labels_among(labels, classes);
  EXPECT_EQ(chosen.shape(), Shape({2, 3}));
  EXPECT_EQ(std::vector<float>(chosen.data<float>(), chosen.data<float>() + 6),
            (std::vector<float>{0, 7, 4, 5, 3, 2}));
  EXPECT_EQ(places.data<std::int64_t>()[0], 1);
  EXPECT_EQ(places.data<std::int64_t>()[1], 2);
  AccuracyMeter all, choice, choosing(classes);
  all.add({{"label", labels}}, {{"logits", logits}});
  choice.add({{"label", places}}, {{"logits", chosen}});
  choosing.add({{"label", labels}}, {{"logits", logits}});
  EXPECT_EQ(all.result().at("top1"), 0);      // class 1 wins the first row
  EXPECT_EQ(choice.result().at("top1"), 50);  // but is not among the choices
  EXPECT_EQ(choosing.result().values, choice.result().values);
  const std::vector<std::int64_t> wrong = {0, 3};
  EXPECT_THROW(labels_among(labels, wrong), Error);
  EXPECT_THROW(AccuracyMeter(wrong).add({{"label", labels}}, {{"logits", logits}}), Error);
}

class RobustnessSuites : public ::testing::Test {
 protected:
  fs::path root() const { return dir_.path() / "suite"; }
  void image(const std::string& name) {
    write_bytes(dir_.path() / name, bmp_file(16, 16, noise(768, ++seed_)));
  }
  void write(const std::string& name, const std::string& text) { dir_.write(name, text); }
  std::vector<std::string> corruptions_found() const {
    std::vector<std::string> found;
    for (const RobustnessFolder& folder : corruption_folders(root())) {
      found.push_back(folder.name + "=" + folder.path.lexically_relative(root()).string());
    }
    return found;
  }
  RobustnessPlan plan(Suite suite = Suite::kImageNetR) {
    RobustnessOptions options;
    options.suite = suite;
    options.root = root();
    options.classes = classes_;
    return plan_robustness(config_, options,
                           {"the model", model_names_, config_.model.num_classes});
  }
  // Three images of the classes b and d in the suite; the model has the classes a, b, c and d.
  void renditions() {
    config_.model.num_classes = 4;
    config_.data.root = dir_.path() / "clean";
    for (const char* name : {"b/1.bmp", "b/2.bmp", "d/1.bmp"}) image(std::string("suite/") + name);
  }

  TempFolder dir_;
  std::uint32_t seed_ = 0;
  ExperimentConfig config_;
  fs::path classes_;
  std::vector<std::string> model_names_;  // in the checkpoint
};

TEST_F(RobustnessSuites, FindsCorruptionsWithAndWithoutGroupFolders) {
  for (const char* name : {"blur/glass_blur/2", "blur/glass_blur/1", "fog/5", "extra/saturate/3",
                           ".cache/snow/1", "blur/readme/1", "frost/1", "frost/10", "style/1"}) {
    fs::create_directories(root() / name);
  }
  write("suite/blur/index.txt", "");
  EXPECT_EQ(
      corruptions_found(),
      (std::vector<std::string>{"glass_blur/1=blur/glass_blur/1", "glass_blur/2=blur/glass_blur/2",
                                "frost/1=frost/1", "fog/5=fog/5", "saturate/3=extra/saturate/3"}));
}

TEST_F(RobustnessSuites, RejectsOtherFolders) {
  const auto refuses = [&](const std::vector<std::string>& parts) {
    expect_error<DataError>([&] { corruptions_found(); }, parts);
    fs::remove_all(root());
  };
  refuses({"no such folder", "<corruption>/<severity>"});
  write("suite", "a file");
  refuses({"no such folder"});
  fs::create_directories(root() / "val/n01440764");
  refuses({"no folder named after a corruption"});
  write("suite/noise.tar", "");
  refuses({"unpack noise.tar"});
  fs::create_directories(root() / "1/n01440764");
  refuses({"give its parent folder"});
  fs::create_directories(root() / "fog/n01440764");
  refuses({"suite/fog", "1 to 5"});
  fs::create_directories(root() / "fog/1");
  fs::create_directories(root() / "weather/fog/1");
  refuses({"found fog twice", "weather/fog"});
  write("suite/fog/1", "a file");
  refuses({"fog/1: is not a folder"});
  write("suite/fog", "a file");
  refuses({"fog: is not a folder"});
}

TEST_F(RobustnessSuites, ClassesComeFromCleanImages) {
  renditions();
  for (const char* name : {"a/1.bmp", "b/1.bmp", "c/1.bmp", "d/1.bmp"}) {
    image(std::string("clean/val/") + name);
  }
  const RobustnessPlan p = plan();
  EXPECT_EQ(p.classes, (std::vector<std::string>{"a", "b", "c", "d"}));
  EXPECT_EQ(p.choice, (std::vector<std::int64_t>{1, 3}));
  ASSERT_EQ(p.cells.size(), 2u);
  EXPECT_EQ(p.cells[0].name, "clean");
  const Dataset& clean = *p.cells[0].images;
  ASSERT_EQ(clean.size(), 2);
  EXPECT_EQ(clean.label(0), 1);
  EXPECT_EQ(clean.label(1), 3);
  SampleWorkspace workspace;
  clean.load(1, workspace);
  EXPECT_EQ(workspace.name, (dir_.path() / "clean/val/d/1.bmp").string());
  EXPECT_EQ(clean.sample_name(1), workspace.name);
  const Dataset& renditions = *p.cells[1].images;
  ASSERT_EQ(renditions.size(), 3);
  EXPECT_EQ(renditions.label(1), 1);
  EXPECT_EQ(renditions.label(2), 3);
  EXPECT_EQ(p.cells[1].crop_pct, config_.data.crop_pct);
  image("suite/e/1.bmp");
  expect_error<DataError>([&] { plan(); }, {"'e'", "clean/val", "--classes"});
  fs::remove_all(root() / "e");
  fs::create_directories(root() / "c");
  expect_error<DataError>([&] { plan(); }, {"suite/c", "no images"});
}

// Labels are those of the checkpoint, for any order and number of folders.
TEST_F(RobustnessSuites, ClassesComeFromCheckpoint) {
  renditions();
  model_names_ = {"d", "c", "b", "a"};
  for (const char* name : {"b/1.bmp", "c/1.bmp"}) image(std::string("clean/val/") + name);
  const RobustnessPlan p = plan();
  EXPECT_EQ(p.classes, model_names_);
  EXPECT_EQ(p.choice, (std::vector<std::int64_t>{0, 2}));
  ASSERT_EQ(p.cells.size(), 2u);
  ASSERT_EQ(p.cells[0].images->size(), 1);  // c is not among the choices
  EXPECT_EQ(p.cells[0].images->label(0), 2);
  EXPECT_EQ(p.cells[1].images->label(0), 2);
  EXPECT_EQ(p.cells[1].images->label(2), 0);
  image("clean/val/e/1.bmp");
  expect_error<DataError>([&] { plan(); }, {"'e'", "not among the 4", "--no-clean"});
  fs::remove_all(dir_.path() / "clean/val/e");
  image("suite/x/1.bmp");
  expect_error<DataError>([&] { plan(); }, {"'x'", "not among the 4"});
  fs::remove_all(root() / "x");
  classes_ = dir_.path() / "classes.txt";
  write("classes.txt", "d\nb\nc\na\n");
  expect_error<DataError>([&] { plan(); }, {"'c' has label 2", "1 in the model"});
}

TEST_F(RobustnessSuites, ClassesWithoutCleanImages) {
  renditions();
  expect_error<DataError>([&] { plan(); }, {"4 classes", "'b' to 'd'", "data.root", "--classes"});
  for (const char* name : {"a", "b", "c", "d"}) image(cat("clean/train/", name, "/1.bmp"));
  EXPECT_EQ(plan().choice, (std::vector<std::int64_t>{1, 3}));
  EXPECT_EQ(plan().cells.size(), 1u);
  fs::remove_all(dir_.path() / "clean");
  config_.model.num_classes = 2;
  EXPECT_EQ(plan().choice, (std::vector<std::int64_t>{0, 1}));  // the folders' classes
  fs::rename(root() / "b", root() / "n01443537");
  fs::rename(root() / "d", root() / "n15075141");
  config_.model.num_classes = 1000;
  EXPECT_EQ(plan().choice, (std::vector<std::int64_t>{1, 999}));
  image("clean/val/n15075141/1.bmp");  // a part of ImageNet keeps ImageNet's labels
  EXPECT_EQ(plan().choice, (std::vector<std::int64_t>{1, 999}));
  EXPECT_EQ(plan().cells[0].images->label(0), 999);
}

TEST_F(RobustnessSuites, ClassList) {
  renditions();
  classes_ = dir_.path() / "classes.txt";
  write("classes.txt", "  d\r\n\nb \nc\na");
  EXPECT_EQ(plan().choice, (std::vector<std::int64_t>{0, 1}));
  EXPECT_EQ(plan().cells[0].images->label(0), 1);  // b
  image("clean/val/a/1.bmp");
  EXPECT_EQ(plan().cells.size(), 1u);  // no clean image of b or d
  for (const char* name : {"b", "c", "d"}) image(cat("clean/val/", name, "/1.bmp"));
  const RobustnessPlan p = plan();
  const Dataset& clean = *p.cells[0].images;  // labels are those of the list
  ASSERT_EQ(clean.size(), 2);
  EXPECT_EQ(clean.label(0), 1);
  EXPECT_EQ(clean.label(1), 0);
  write("classes.txt", "a\nb\nc\n");
  expect_error<DataError>([&] { plan(); }, {"names 3 classes", "4"});
  write("classes.txt", "a\nb\nc\nb\n");
  expect_error<DataError>([&] { plan(); }, {"'b' twice"});
  classes_ = dir_.path() / "absent.txt";
  expect_error<DataError>([&] { plan(); }, {"absent.txt"});
}

TEST_F(RobustnessSuites, CorruptionsAreClassifiedAmongAllClasses) {
  config_.model.num_classes = 3;
  for (const char* name : {"fog/1/b/1.bmp", "fog/1/c/1.bmp", "fog/2/a/1.bmp"}) {
    image(std::string("suite/") + name);
  }
  const RobustnessPlan p = plan(Suite::kImageNetC);
  EXPECT_EQ(p.classes, (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_TRUE(p.choice.empty());
  ASSERT_EQ(p.cells.size(), 2u);
  EXPECT_EQ(p.cells[0].name, "fog/1");
  EXPECT_EQ(p.cells[0].images->label(0), 1);
  EXPECT_EQ(p.cells[1].images->label(0), 0);
  EXPECT_EQ(p.cells[0].crop_pct, 1);
  fs::create_directories(root() / "fog/3");
  expect_error<DataError>([&] { plan(Suite::kImageNetC); }, {"fog/3", "no class folders"});
}

RobustnessScore score_of(double top1, std::int64_t count) {
  RobustnessScore score;
  score.result = {top1, 100 - top1 / 3, 1 / (top1 + 1), count, 0.5};
  score.bad_images = count % 3;
  score.images = cat("images-", count);
  return score;
}

RobustnessReport example() {
  RobustnessReport report;
  report.num_classes = 10;
  report.settings = {
      "w",      "m",     "c", "fp32", 1, 0.875, Interpolation::kBicubic, Resample::kPillow13,
      {0.485f}, {0.229f}};
  for (int s = 1; s <= 5; ++s) report.scores[cat("fog/", s)] = score_of(10 * s, 100);
  report.scores["snow/2"] = score_of(100.0 / 3, 300);
  report.scores["spatter/4"] = score_of(1, 50);
  report.scores["clean"] = score_of(90, 70);
  return report;
}

TEST(RobustnessReports, Json) {
  const Json json = Json::parse(to_json(example()));
  EXPECT_EQ(json["count"], 800);
  EXPECT_NEAR(json["top1"].get<double>(), (100 * 150 + 300 * 100.0 / 3) / 800, 1e-12);
  EXPECT_NEAR(json["images_per_second"].get<double>(), 800 / 3.0, 1e-9);
  EXPECT_TRUE(json["mce"].is_null());
  EXPECT_EQ(json["complete_corruptions"], 1);
  EXPECT_NEAR(json["mean_ce"].get<double>(), 70 / 0.819324, 1e-9);
  EXPECT_NEAR(json["corruptions"]["fog"]["ce"].get<double>(), 70 / 0.819324, 1e-9);
  EXPECT_EQ(json["corruptions"]["fog"]["severities"]["2"]["error"], 80);
  EXPECT_EQ(json["corruptions"]["fog"]["severities"]["2"]["count"], 100);
  EXPECT_EQ(json["corruptions"].size(), 15u);
  EXPECT_TRUE(json["corruptions"]["snow"]["error"].is_null());
  EXPECT_TRUE(json["corruptions"]["snow"]["severities"]["1"].is_null());
  EXPECT_TRUE(json["corruptions"]["frost"]["severities"]["5"].is_null());
  EXPECT_EQ(json["extra"].size(), 1u);
  EXPECT_EQ(json["extra"]["spatter"]["severities"]["4"]["top1"], 1);
  EXPECT_EQ(json["clean"]["top1"], 90);
}

TEST(RobustnessReports, Text) {
  RobustnessReport report = example();
  const std::string text = to_text(report);
  for (const char* part :
       {"fog                  90.00   80.00   70.00   60.00   50.00    70.00    85.44\n",
        "snow                     -   66.67       -       -       -        -        -\n",
        "outside the benchmark\nspatter                  -       -       -   99.00       -",
        "mean CE of 1 of 15 corruptions 85.44 %", "top-1 90.00 %",
        "clean, 10 classes, 70 images"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
  EXPECT_EQ(text.find("mCE "), std::string::npos) << text;
  for (std::size_t i = 0; i < kBenchmarkCorruptions; ++i) {
    for (std::size_t s = 0; s < kSeverities; ++s) {
      report.scores[score_name(corruptions()[i], s)] =
          score_of(100 - 100 * alexnet_error(corruptions()[i]), 10);
    }
  }
  EXPECT_NE(to_text(report).find("\nmCE 100.00 %  mean error 78.90 %\n"), std::string::npos)
      << to_text(report);
  report.scores.clear();
  EXPECT_NE(to_text(report).find("no CE"), std::string::npos);
  EXPECT_TRUE(Json::parse(to_json(report))["top1"].is_null());
}

TEST_F(RobustnessSuites, KeptResultsRoundTrip) {
  const fs::path file = dir_.path() / "kept.json";
  RobustnessReport report = example();
  report.scores["fog/1"].result.loss = std::nan("");
  const auto load = [&](const RobustnessReport& of) {
    return load_scores(file, of.suite, of.settings);
  };
  EXPECT_TRUE(load(report).empty());
  write("kept.json", to_json(report, 2));
  const auto scores = load(report);
  ASSERT_EQ(scores.size(), report.scores.size());
  for (const auto& [name, score] : report.scores) {
    const RobustnessScore& back = scores.at(name);
    EXPECT_EQ(back.result.top1, score.result.top1) << name;
    EXPECT_EQ(back.result.top5, score.result.top5);
    EXPECT_EQ(back.result.count, score.result.count);
    EXPECT_EQ(back.result.seconds, score.result.seconds);
    EXPECT_EQ(back.bad_images, score.bad_images);
    EXPECT_EQ(back.images, score.images);
    EXPECT_TRUE(back.result.loss == score.result.loss || std::isnan(score.result.loss));
  }
  EXPECT_TRUE(std::isnan(scores.at("fog/1").result.loss));

  RobustnessReport other = report;
  other.settings.weights = "v";
  other.settings.mean = {0.5f};
  expect_error<ConfigError>([&] { load(other); },
                            {"kept.json", "weights is \"v\", was \"w\"", "mean is [0.5]"});
  other = report;
  other.suite = Suite::kImageNetR;
  expect_error<ConfigError>([&] { load(other); }, {"imagenet-c"});
  for (const char* text : {"", "{}", "[1]", "precious", "{\"suite\": 3}",
                           "{\"suite\": \"imagenet-c\", \"settings\": {}}"}) {
    write("kept.json", text);
    expect_error<ConfigError>([&] { load(report); }, {"kept.json", "name another file"});
  }
  Json broken = Json::parse(to_json(report));
  broken["clean"].erase("count");
  write("kept.json", broken.dump());
  expect_error<ConfigError>([&] { load(report); }, {"count"});
}

TEST(Fingerprints, DistinguishWeights) {
  const auto weights = [](float last, const std::string& name, Shape shape) {
    return NamedTensors{{name, Tensor::from(std::vector<float>{1, 2, 3, 4, 5, last}, shape)}};
  };
  const std::string print = fingerprint_of(weights(6, "a", {2, 3}));
  EXPECT_EQ(print.size(), 16u);
  EXPECT_EQ(print, fingerprint_of(weights(6, "a", {2, 3})));
  EXPECT_NE(print, fingerprint_of(weights(std::nextafter(6.f, 7.f), "a", {2, 3})));
  EXPECT_NE(print, fingerprint_of(weights(6, "b", {2, 3})));
  EXPECT_NE(print, fingerprint_of(weights(6, "a", {3, 2})));
}

// A whole suite in one process. Finished parts are not repeated.
TEST_F(RobustnessSuites, RunsUnfinishedPartsOnly) {
  ModelConfig& m = config_.model;
  m = deit_vit();
  m.image_size = 15;
  m.channels = 3;
  m.num_classes = 2;
  for (const char* name : {"fog/1/a/1.bmp", "fog/1/b/1.bmp", "fog/2/a/1.bmp"}) {
    image(std::string("suite/") + name);
  }
  config_.seed = 1;
  Classify task(config_);
  RobustnessOptions options;
  options.root = root();
  options.save = dir_.path() / "kept.json";
  const auto run = [&] { return evaluate_robustness(task, config_, options).value(); };
  const RobustnessReport first = run();
  EXPECT_EQ(first.scores.at("fog/1").result.count, 2);
  EXPECT_EQ(first.scores.at("fog/2").result.count, 1);
  EXPECT_EQ(first.settings.crop_pct, 1);

  RobustnessReport marked = first;
  for (auto& [name, score] : marked.scores) score.result.top5 = 77;
  write("kept.json", to_json(marked));
  EXPECT_EQ(run().scores.at("fog/1").result.top5, 77);
  image("suite/fog/1/b/1.bmp");  // changes the folder
  image("suite/fog/3/b/1.bmp");
  const RobustnessReport second = run();
  EXPECT_EQ(second.scores.at("fog/1").result.top5, 100);
  EXPECT_EQ(second.scores.at("fog/2").result.top5, 77);
  EXPECT_EQ(second.scores.at("fog/3").result.count, 1);
  fs::remove_all(root() / "fog/2");  // its result stays
  EXPECT_EQ(run().scores.at("fog/2").result.top5, 77);
  options.crop_pct = 0.5;
  expect_error<ConfigError>(run, {"crop_pct is 0.5, was 1.0"});

  options.crop_pct.reset();
  write("suite/fog/4/a/1.bmp", "damaged");
  expect_error<DataError>(run, {"all images are damaged", "fog/4"});
  image("suite/fog/4/b/1.bmp");
  EXPECT_EQ(run().scores.at("fog/4").bad_images, 1);
  EXPECT_EQ(run().scores.at("fog/4").result.count, 1);
}

}  // namespace
}  // namespace dtn
