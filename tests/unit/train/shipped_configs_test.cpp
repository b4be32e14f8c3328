// The configs that come with the source, with the real normalizers: each loads, survives a round
// trip and makes a model.
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "dtn/config/load.h"
#include "dtn/config/sweep.h"
#include "dtn/models/complexity.h"
#include "dtn/nn/normalizer.h"

namespace dtn {
namespace {

namespace fs = std::filesystem;

fs::path configs() { return fs::path(find_config("vit_t_ln")).parent_path().parent_path(); }

std::vector<fs::path> files_of(const std::string& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(configs() / folder)) {
    if (entry.path().extension() == ".yaml") files.push_back(entry.path());
  }
  return files;
}

class Shipped : public testing::TestWithParam<const char*> {};

TEST_P(Shipped, ExperimentsLoadAndMakeAModel) {
  std::vector<fs::path> files = files_of(GetParam());
  EXPECT_FALSE(files.empty());
  for (const fs::path& file : files) {
    SCOPED_TRACE(file.string());
    ExperimentConfig c = load_experiment(file, {}, norm_schemas());
    EXPECT_EQ(c.name, file.stem());
    EXPECT_EQ(find_config(c.name), file.string()) << "found by its name";
    EXPECT_TRUE(parse_experiment(to_yaml(c), "round trip", {}, norm_schemas()) == c);
    EXPECT_GT(complexity_of(c.model).parameters, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Folders, Shipped, testing::Values("imagenet", "fashion_mnist", "images32"),
                         [](const auto& each) { return std::string(each.param); });

TEST(ShippedSweeps, LoadAndCompareWithThePaper) {
  for (const fs::path& file : files_of("sweeps")) {
    SCOPED_TRACE(file.string());
    SweepConfig sweep = load_sweep(file, {}, norm_schemas());
    EXPECT_EQ(sweep.name, file.stem());
    EXPECT_EQ(find_config(sweep.name), file.string()) << "found by its name";
    EXPECT_GE(sweep.variants.size(), 2u);
    std::set<std::string> configs;
    for (const SweepVariant& v : sweep.variants) {
      EXPECT_TRUE(v.paper.has_value()) << v.name;
      ExperimentConfig bare = v.config;
      bare.name = "same";
      EXPECT_TRUE(configs.insert(to_yaml(bare)).second) << v.name << " is the same as another";
      EXPECT_GT(complexity_of(v.config.model).parameters, 0) << v.name;
    }
  }
}

// A sweep on ImageNet has the experiments that the single configs have.
TEST(ShippedSweeps, AgreeWithTheSingleConfigs) {
  auto expect_same = [](const char* sweep, const char* variant, const char* config) {
    SweepConfig s = load_sweep(find_config(sweep), {}, norm_schemas());
    ExperimentConfig want = load_experiment(find_config(config), {}, norm_schemas());
    for (const SweepVariant& v : s.variants) {
      if (v.name != variant) continue;
      ExperimentConfig got = v.config;
      got.name = want.name;
      EXPECT_EQ(to_yaml(got), to_yaml(want)) << sweep << ": " << variant;
      return;
    }
    ADD_FAILURE() << sweep << " has no " << variant;
  };
  expect_same("table1_models", "vit_b_star_dtn", "vit_b_star_dtn");
  expect_same("table3_normalizers", "power", "vit_s_star_power");
  expect_same("table3_normalizers_vit_s", "sn", "vit_s_sn");
  expect_same("table5_components", "lambda0_uniform", "vit_s_star_dtn_lambda0_uniform");
  expect_same("table8_layers", "layers6", "vit_s_star_dtn_layers6");
  expect_same("table10_positions", "ln_mhsa_position", "vit_s_star_ln_mhsa_position");
  expect_same("position_init", "trunc_normal", "vit_t_star_dtn_trunc_normal");
}

// Rows of the paper's tables and what makes them: Table 1 is in unit_config.
struct Row {
  const char *name, *type, *option, *value;
  int layers;
};

TEST(PaperRows, AreWhatTheTablesSay) {
  const Row rows[] = {
      {"vit_s_bn", "bn", "", "", 10},
      {"vit_s_star_power", "power", "groups", "heads", 10},
      {"vit_s_star_dtn_lambda0_uniform", "dtn", "position", "uniform", 10},
      {"vit_s_star_dtn_layers0", "dtn", "", "", 0},
      {"vit_s_star_dtn_layers8", "dtn", "", "", 8},
      {"vit_t_star_dtn_trunc_normal", "dtn", "init", "trunc_normal", 10},
      {"vit_s_star_dtn_official", "dtn", "variant", "official", 10},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    ExperimentConfig c = load_experiment(find_config(row.name), {}, norm_schemas());
    EXPECT_EQ(c.model.norm.type, row.type);
    EXPECT_EQ(c.model.norm_layers(), row.layers);
    if (*row.option) {
      EXPECT_EQ(*c.model.norm.find<std::string>(row.option), row.value);
    }
  }
  EXPECT_TRUE(load_experiment(find_config("vit_s_star_ln_mhsa_position"), {}, norm_schemas())
                  .model.mhsa_position);
}

}  // namespace
}  // namespace dtn
