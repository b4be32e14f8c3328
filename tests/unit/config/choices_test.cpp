// Keys that the chosen entry of a registry does not read: an error in the same file and in --set,
// dropped if inherited.
#include "config/choices.h"

#include <algorithm>

#include "unit/config/helpers.h"

namespace dtn::testing {
namespace {

ConfigSchemas schemas() {
  ConfigSchemas all = fake_schemas();
  all.models = {{"vit", "one stage", {"registers", "drop_path"}},
                {"swin", "windows", {"window", "drop_path", "norm.layers"}}};
  return all;
}

struct Case {
  const char* base;    // chooses a row that reads the key
  const char* top;     // chooses another row
  const char* unread;  // chooses the other row, and sets the key
  const char *set, *path, *message;
};

const Case kCases[] = {
    {"model: {preset: vit_t, registers: 2}", "model: {preset: swin_t}",
     "model: {preset: swin_t, registers: 2}", "2", "model.registers",
     "the model family 'swin'; it is read by: vit; remove it"},
    {"model: {preset: swin_t, norm: {layers: 2}}", "model: {preset: vit_t}",
     "model: {preset: vit_t, norm: {layers: 2}}", "2", "model.norm.layers",
     "the model family 'vit'; it is read by: swin; remove it"},
    {"model: {norm: {type: dtn, variant: official}}", "model: {preset: vit_t, norm: gn}",
     "model: {preset: vit_t, norm: {type: gn, variant: official}}", "official",
     "model.norm.variant", "the normalizer 'gn'; it is read by: dtn; remove it"},
    {"data: {dataset: idx, mean: 0.5}", "model: {preset: vit_t}\ndata: {dataset: tensors}",
     "model: {preset: vit_t}\ndata: {dataset: tensors, mean: 0.5}", "0.5", "data.mean",
     "the data set 'tensors'; it is read by: imagefolder, idx, cifar10, cifar100, synthetic; "
     "remove it"},
    {"optim: {name: sgd, momentum: 0.5}", "model: {preset: vit_t}\noptim: {name: lamb}",
     "model: {preset: vit_t}\noptim: {name: lamb, momentum: 0.5}", "0.5", "optim.momentum",
     "the optimizer 'lamb'; it is read by: adamw, sgd; remove it"},
    {"schedule: {name: drops, gamma: 0.5}", "model: {preset: vit_t}\nschedule: {name: late}",
     "model: {preset: vit_t}\nschedule: {name: late, gamma: 0.5}", "0.5", "schedule.gamma",
     "the schedule 'late'; it is read by: drops; remove it"},
    {"distill: {teacher: t}", "model: {preset: vit_t}\ntask: regress",
     "model: {preset: vit_t}\ntask: regress\ndistill: {teacher: t}", "t", "distill.teacher",
     "the task 'regress'; it is read by: classify; remove it"},
};

class Choices : public ::testing::TestWithParam<Case> {
 protected:
  ExperimentConfig load(const std::string& text, const std::vector<std::string>& set = {}) const {
    return load_experiment(folder_.write("top.yaml", text), set, schemas());
  }
  TempFolder folder_;
};

TEST_P(Choices, AnUnreadKeyOfTheSameFileIsAnError) {
  const Case& c = GetParam();
  const std::string error = error_of([&] { load(c.unread); });
  expect_contains(error, cat(c.path, " is not read by ", c.message));
  expect_contains(error, "top.yaml:");
}

TEST_P(Choices, AnUnreadKeyInSetIsAnError) {
  const Case& c = GetParam();
  const std::string set = cat(c.path, "=", c.set);
  const std::string expected = cat("--set ", set, ": ", c.path, " is not read by ", c.message);
  expect_contains(error_of([&] { load(c.top, {set}); }), expected);
  folder_.write("base.yaml", c.base);
  expect_contains(error_of([&] { load(cat("base: base.yaml\n", c.top), {set}); }), expected);
}

TEST_P(Choices, AnInheritedUnreadKeyIsDropped) {
  const Case& c = GetParam();
  folder_.write("base.yaml", c.base);
  EXPECT_TRUE(load(cat("base: base.yaml\n", c.top)) == load(c.top));
}

TEST_P(Choices, AnUnreadKeyOfARunIsIgnored) {
  const Case& c = GetParam();
  const ExperimentConfig expected = parse_experiment(c.top, "t.yaml", {}, schemas());
  EXPECT_TRUE(parse_experiment(c.unread, "t.yaml", {}, schemas(), ConfigOrigin::kStored) ==
              expected);
  folder_.write("run/metrics.jsonl", "");
  const std::string file = folder_.write("run/config.yaml", c.unread);
  EXPECT_TRUE(load_experiment(file, {}, schemas()) == expected);
}

std::string name_of(const ::testing::TestParamInfo<Case>& info) {
  std::string name = info.param.path;
  std::ranges::replace(name, '.', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Registries, Choices, ::testing::ValuesIn(kCases), name_of);

// A printed config has all keys, those that nothing reads with their defaults.
TEST(ChoiceKeys, DefaultsOfUnreadKeysMayBeInAFile) {
  const char* const text = "model: {preset: vit_t}\noptim: {name: lamb, momentum: 0.9}";
  EXPECT_EQ(parse(text).optim.momentum, 0.9);
  expect_contains(parse_error(text, {"optim.momentum=0.9"}), "--set optim.momentum=0.9: ");
}

TEST(ChoiceKeys, TellWhichKeysAreRead) {
  ExperimentConfig c = parse("model: {preset: vit_t}\ndata: {dataset: tensors}");
  EXPECT_TRUE(config::is_read("data.train", c, schemas()));
  EXPECT_FALSE(config::is_read("data.mean", c, schemas()));
  EXPECT_TRUE(config::is_read("optim.lr", c, schemas())) << "no row lists it";
  c.data.dataset = "unknown";
  EXPECT_TRUE(config::is_read("data.mean", c, schemas()));
}

TEST(ChoiceKeys, RowsMayCheckValues) {
  ConfigSchemas all = fake_schemas();
  all.datasets[1].check = [](const DataConfig& data) -> std::optional<ConfigProblem> {
    if (!data.root.empty()) return {};
    return ConfigProblem{{"data.root"}, "data.root is not set"};
  };
  all.optimizers[1].check = [](const OptimConfig& optim) -> std::optional<ConfigProblem> {
    if (optim.momentum != 0) return {};
    return ConfigProblem{{"optim.momentum"}, "optim.momentum is 0"};
  };
  const auto error = [&](const char* text) {
    return error_of(
        [&] { parse_experiment(cat("model: {preset: vit_t}\n", text), "t.yaml", {}, all); });
  };
  expect_contains(error("data: {dataset: idx}"), "t.yaml:2:17: data.root is not set");
  expect_contains(error("optim: {name: sgd, momentum: 0}"), "t.yaml:2:30: optim.momentum is 0");
  expect_contains(error("schedule: {name: drops, min_lr: 1}"), "t.yaml:2:33: schedule.min_lr is");
}

TEST(NormAffine, IsReadAndWrittenBack) {
  EXPECT_EQ(parse("model: {preset: vit_t, norm: dtn}").model.norm.affine, std::nullopt);
  for (const bool affine : {false, true}) {
    const ExperimentConfig c = parse(
        cat("model: {preset: vit_t, norm: {type: dtn, affine: ", affine ? "true" : "false", "}}"));
    EXPECT_EQ(c.model.norm.affine, affine);
    EXPECT_EQ(parse(to_yaml(c)), c);
  }
  expect_contains(parse_error("model: {preset: vit_t, norm: {affine: 0.5}}"), "affine");
}

}  // namespace
}  // namespace dtn::testing
