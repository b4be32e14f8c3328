// The shipped configs, with the real normalizers: each config loads, survives a round trip through
// YAML and builds a model.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "config/sweeps/sweep_config.h"
#include "dtn/config/load.h"
#include "dtn/models/complexity.h"
#include "dtn/tasks/registries.h"

namespace dtn {
namespace {

namespace fs = std::filesystem;

const ConfigSchemas& schemas() {
  static const ConfigSchemas all = standard_registries().schemas();
  return all;
}

fs::path configs() {
  return fs::path(find_config("vit_t_ln", schemas())).parent_path().parent_path();
}

std::vector<fs::path> files_of(const std::string& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(configs() / folder)) {
    if (entry.path().extension() == ".yaml") files.push_back(entry.path());
  }
  return files;
}

class Shipped : public testing::TestWithParam<const char*> {};

TEST_P(Shipped, ExperimentsLoadAndBuildModel) {
  std::vector<fs::path> files = files_of(GetParam());
  EXPECT_FALSE(files.empty());
  for (const fs::path& file : files) {
    SCOPED_TRACE(file.string());
    ExperimentConfig c = load_experiment(file, {}, schemas());
    EXPECT_EQ(c.name, file.stem());
    EXPECT_EQ(find_config(c.name, schemas()), file.string()) << "found by its name";
    EXPECT_TRUE(parse_experiment(to_yaml(c), "round trip", {}, schemas()) == c);
    EXPECT_GT(complexity_of(c.model).parameters, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Folders, Shipped,
                         testing::Values("imagenet", "fashion_mnist", "images32", "finetune",
                                         "diffusion", "self_supervised", "detection", "translate"),
                         [](const auto& each) { return std::string(each.param); });

TEST(ShippedSweeps, LoadWithPaperResults) {
  std::vector<fs::path> files = files_of("sweeps");
  EXPECT_GE(files.size(), 19u);
  for (const fs::path& file : files) {
    SCOPED_TRACE(file.string());
    if (is_sweep_collection(file)) continue;
    SweepConfig sweep = load_sweep(file, {}, schemas());
    EXPECT_EQ(sweep.name, file.stem());
    EXPECT_EQ(find_config(sweep.name, schemas()), file.string()) << "found by its name";
    EXPECT_GE(sweep.variants.size(), 2u);
    std::set<std::string> configs;
    int known = 0;  // variants with a figure of the paper; a sweep may have others
    for (const SweepVariant& v : sweep.variants) {
      known += v.paper.has_value() || !v.paper_suites.empty() || !v.paper_features.empty();
      ExperimentConfig bare = v.config;
      bare.name = "same";
      EXPECT_TRUE(configs.insert(to_yaml(bare)).second) << v.name << " is the same as another";
      EXPECT_GT(complexity_of(v.config.model).parameters, 0) << v.name;
    }
    // The paper names supervised contrastive learning, but has no figure of it, and it has no
    // model with a condition or from image to image.
    const std::set<std::string> without_figures{
        "fashion_mnist_dit", "shapes_table11",       "fashion_mnist_label_sets",
        "images32_restore",  "images32_restore_fog", "images32_styles",
        "drawn_maps",        "drawn_questions"};
    if (sweep.name.ends_with("table7_supcon") || without_figures.contains(sweep.name)) continue;
    EXPECT_GE(known, 2) << "nothing of the paper to compare with";
  }
}

// The collection of the paper contains every sweep named after one of its ImageNet tables.
TEST(ShippedSweeps, PaperCollectionIsComplete) {
  const SweepCollection paper =
      load_sweep_collection(find_config("paper", schemas()), {}, schemas());
  std::set<std::string> collected;
  for (const CollectedSweep& table : paper.tables) {
    if (table.sweep) collected.insert(table.sweep->name);
  }
  for (const fs::path& file : files_of("sweeps")) {
    const std::string name = file.stem();
    EXPECT_TRUE(!name.starts_with("table") || collected.contains(name)) << name;
  }
}

// Figures 6 to 8 show the start of a run and its lambdas. A run that several sweeps share is
// trained by the first of them, so all must ask for the log.
TEST(ShippedSweeps, PaperLogsLambdasOfEveryVit) {
  const SweepCollection paper =
      load_sweep_collection(find_config("paper", schemas()), {}, schemas());
  std::size_t vits = 0, figures = 0;
  for (const CollectedSweep& table : paper.tables) {
    figures += table.figure.has_value();
    if (!table.sweep) continue;
    for (const SweepVariant& v : table.sweep->variants) {
      if (!v.config.model.preset.starts_with("vit_")) continue;
      ++vits;
      EXPECT_EQ(v.config.train.log_norms, (Period{1, true})) << table.sweep->name << "/" << v.name;
    }
  }
  EXPECT_GT(vits, 30u);
  EXPECT_EQ(figures, 7u) << "Figures 1 to 9; one entry for 4 and 5, one for 6 and 7";
}

// Sweep, variant, config of the same experiment and the paper's top-1 accuracy: Tables 1, 2, 3, 5,
// 7a (after 100 epochs), 8, 9, 10 and 12, and the initialization of the positions. SupCon has no
// figure. `set` overrides keys of the config.
using Keys = std::array<const char*, 4>;
struct Row {
  const char *sweep, *variant, *config;
  std::optional<double> paper;
  Keys set = {};
};
constexpr Keys kDeitLayout = {"model.class_token_at=0", "model.pos_embed=all"};
constexpr Keys kHeads1258 = {"model.num_heads=[1, 2, 5, 8]"};
constexpr Keys kHeads4458 = {"model.num_heads=[4, 4, 5, 8]"};
constexpr Keys kEvaluated = {"data.val=val", "train.eval_every=20epoch", "train.log_norms=1epoch"};
constexpr Keys kEvaluatedAndKept = {"data.val=val", "train.eval_every=20epoch",
                                    "train.log_norms=1epoch", "train.keep_every=20epoch"};
constexpr Row kRows[] = {
    {"table1_models", "vit_t_ln", "vit_t_ln", 72.2},
    {"table1_models", "vit_t_star_ln", "vit_t_star_ln", 72.3},
    {"table1_models", "vit_t_star_dtn", "vit_t_star_dtn", 73.2},
    {"table1_models", "vit_s_ln", "vit_s_ln", 79.9},
    {"table1_models", "vit_s_dtn", "vit_s_dtn", 80.6},
    {"table1_models", "vit_s_star_ln", "vit_s_star_ln", 80.6},
    {"table1_models", "vit_s_star_dtn", "vit_s_star_dtn", 81.7},
    {"table1_models", "vit_b_ln", "vit_b_ln", 81.8},
    {"table1_models", "vit_b_dtn", "vit_b_dtn", 82.3},
    {"table1_models", "vit_b_star_ln", "vit_b_star_ln", 81.7},
    {"table1_models", "vit_b_star_dtn", "vit_b_star_dtn", 82.5},
    {"table1_models", "vit_t_deit_ln", "vit_t_ln", 72.2, kDeitLayout},
    {"table1_models", "vit_t_star_deit_ln", "vit_t_star_ln", 72.3, kDeitLayout},
    {"table1_models", "vit_s_deit_ln", "vit_s_ln", 79.9, kDeitLayout},
    {"table1_models", "vit_s_star_deit_ln", "vit_s_star_ln", 80.6, kDeitLayout},
    {"table1_models", "vit_b_deit_ln", "vit_b_ln", 81.8, kDeitLayout},
    {"table1_models", "vit_b_star_deit_ln", "vit_b_star_ln", 81.7, kDeitLayout},
    {"table3_normalizers", "ln", "vit_s_star_ln", 80.6},
    {"table3_normalizers", "bn", "vit_s_star_bn", 77.2},
    {"table3_normalizers", "in", "vit_s_star_in", 77.6},
    {"table3_normalizers", "gn", "vit_s_star_gn", 79.5},
    {"table3_normalizers", "sn", "vit_s_star_sn", 81.0},
    {"table3_normalizers", "scale", "vit_s_star_scale", 80.6},
    {"table3_normalizers", "power", "vit_s_star_power", 80.4},
    {"table3_normalizers", "dtn", "vit_s_star_dtn", 81.7},
    {"table3_normalizers_vit_s", "ln", "vit_s_ln", 79.9},
    {"table3_normalizers_vit_s", "bn", "vit_s_bn", 77.3},
    {"table3_normalizers_vit_s", "in", "vit_s_in", 77.7},
    {"table3_normalizers_vit_s", "gn", "vit_s_gn", 78.3},
    {"table3_normalizers_vit_s", "sn", "vit_s_sn", 80.1},
    {"table3_normalizers_vit_s", "scale", "vit_s_scale", 80.0},
    {"table3_normalizers_vit_s", "power", "vit_s_power", 79.8},
    {"table3_normalizers_vit_s", "dtn", "vit_s_dtn", 80.6},
    {"table5_components", "lambda1", "vit_s_star_dtn_lambda1", 80.6},
    {"table5_components", "lambda0_uniform", "vit_s_star_dtn_lambda0_uniform", 77.6},
    {"table5_components", "lambda0", "vit_s_star_dtn_lambda0", 81.2},
    {"table5_components", "lambda05", "vit_s_star_dtn_lambda05", 81.3},
    {"table5_components", "learned", "vit_s_star_dtn", 81.7},
    {"table7a", "vit_s_ln", "dino_vit_s_ln", 74.0, kEvaluatedAndKept},
    {"table7a", "vit_s_star_ln", "dino_vit_s_star_ln", 74.7, kEvaluatedAndKept},
    {"table7a", "vit_s_star_dtn", "dino_vit_s_star_dtn", 75.2, kEvaluatedAndKept},
    {"table7_supcon", "ln", "supcon_vit_s_star_ln", {}, kEvaluated},
    {"table7_supcon", "dtn", "supcon_vit_s_star_dtn", {}, kEvaluated},
    {"table8_layers", "layers0", "vit_s_star_dtn_layers0", 80.6},
    {"table8_layers", "layers4", "vit_s_star_dtn_layers4", 81.2},
    {"table8_layers", "layers6", "vit_s_star_dtn_layers6", 81.4},
    {"table8_layers", "layers8", "vit_s_star_dtn_layers8", 81.5},
    {"table8_layers", "layers10", "vit_s_star_dtn_layers10", 81.7},
    {"table10_positions", "ln", "vit_s_star_ln", 80.6},
    {"table10_positions", "ln_mhsa_position", "vit_s_star_ln_mhsa_position", 80.8},
    {"table10_positions", "dtn_uniform", "vit_s_star_dtn_uniform", 81.4},
    {"table10_positions", "dtn", "vit_s_star_dtn", 81.7},
    {"table2_stages", "pvt_tiny_ln", "pvt_tiny_ln", 75.1},
    {"table2_stages", "pvt_tiny_dtn", "pvt_tiny_dtn", 76.3},
    {"table2_stages", "pvt_small_ln", "pvt_small_ln", 79.9},
    {"table2_stages", "pvt_small_dtn", "pvt_small_dtn", 80.8},
    {"table2_stages", "swin_t_ln", "swin_t_ln", 81.2},
    {"table2_stages", "swin_t_dtn", "swin_t_dtn", 81.9},
    {"table9_large", "pvt_large_ln", "pvt_large_ln", 81.7},
    {"table9_large", "pvt_large_dtn", "pvt_large_dtn", 82.3},
    {"table9_large", "swin_s_ln", "swin_s_ln", 83.0},
    {"table9_large", "swin_s_dtn", "swin_s_dtn", 83.5},
    {"table9_large", "pvt_v2_b3_ln", "pvt_v2_b3_ln", 83.2},
    {"table9_large", "pvt_v2_b3_dtn", "pvt_v2_b3_dtn", 83.7},
    {"table10_stages", "pvt_tiny_ln", "pvt_tiny_ln", 75.1},
    {"table10_stages", "pvt_tiny_ln_mhsa_position", "pvt_tiny_ln_mhsa_position", 75.4},
    {"table10_stages", "pvt_tiny_dtn_uniform", "pvt_tiny_dtn_uniform", 75.9},
    {"table10_stages", "pvt_tiny_dtn", "pvt_tiny_dtn", 76.3},
    {"table10_stages", "pvt_tiny_ln_heads4458", "pvt_tiny_ln", 75.1, kHeads4458},
    {"table10_stages", "pvt_tiny_ln_mhsa_position_heads1258", "pvt_tiny_ln_mhsa_position", 75.4,
     kHeads1258},
    {"table10_stages", "pvt_tiny_dtn_uniform_heads1258", "pvt_tiny_dtn_uniform", 75.9, kHeads1258},
    {"table10_stages", "pvt_tiny_dtn_heads1258", "pvt_tiny_dtn", 76.3, kHeads1258},
    {"table10_stages", "swin_s_ln", "swin_s_ln", 83.0},
    {"table10_stages", "swin_s_dtn", "swin_s_dtn", 83.5},
    {"table10_stages", "levit_128s_bn", "levit_128s_bn", 76.7},
    {"table10_stages", "levit_128s_dtn", "levit_128s_dtn", 77.3},
    {"table12_families", "swin_t_ln", "swin_t_ln", 81.2},
    {"table12_families", "swin_t_dtn", "swin_t_dtn", 81.9},
    {"table12_families", "swin_s_ln", "swin_s_ln", 83.0},
    {"table12_families", "swin_s_dtn", "swin_s_dtn", 83.5},
    {"table12_families", "levit_128s_bn", "levit_128s_bn", 76.6},
    {"table12_families", "levit_128s_dtn", "levit_128s_dtn", 77.3},
    {"table12_families", "t2t_vit_t_14_ln", "t2t_vit_t_14_ln", 81.7},
    {"table12_families", "t2t_vit_t_14_dtn", "t2t_vit_t_14_dtn", 82.4},
    {"position_init", "trunc_normal", "vit_t_star_dtn_trunc_normal", 72.7},
    {"position_init", "local", "vit_t_star_dtn", 73.2},
};

// Top-1 of a table, or of the linear classifier at the end of the training.
std::optional<double> paper_top1(const SweepVariant& variant) {
  const auto linear = variant.paper_features.find("linear");
  return linear == variant.paper_features.end() ? variant.paper
                                                : std::optional(linear->second.back());
}

TEST(ShippedSweeps, MatchPaperTables) {
  std::map<std::string, SweepConfig> sweeps;
  std::size_t variants = 0;
  for (const Row& row : kRows) {
    SCOPED_TRACE(std::string(row.sweep) + ": " + row.variant);
    auto [at, fresh] = sweeps.try_emplace(row.sweep);
    if (fresh) {
      at->second = load_sweep(find_config(row.sweep, schemas()), {}, schemas());
      variants += at->second.variants.size();
    }
    const auto& all = at->second.variants;
    auto v = std::ranges::find(all, std::string(row.variant), &SweepVariant::name);
    ASSERT_NE(v, all.end());
    EXPECT_EQ(paper_top1(*v), row.paper);
    std::vector<std::string> overrides;
    for (const char* set : row.set) {
      if (set) overrides.push_back(set);
    }
    const ExperimentConfig want =
        load_experiment(find_config(row.config, schemas()), overrides, schemas());
    ExperimentConfig got = v->config;
    got.name = want.name;
    EXPECT_EQ(to_yaml(got), to_yaml(want));
  }
  EXPECT_EQ(variants, std::size(kRows)) << "variants of these sweeps that are in no table";
}

TEST(ShippedSweeps, Table7aHasFiveCheckpointsOfEachRun) {
  const SweepConfig sweep = load_sweep(find_config("table7a", schemas()), {}, schemas());
  EXPECT_EQ(sweep.features.epochs, (std::vector<int>{20, 40, 60, 80, 100}));
  const std::vector<std::vector<double>> paper = {{58.8, 67.2, 70.1, 72.8, 74.0},
                                                  {58.5, 68.3, 71.3, 74.0, 74.7},
                                                  {58.9, 68.8, 72.0, 74.4, 75.2}};
  ASSERT_EQ(sweep.variants.size(), paper.size());
  for (std::size_t i = 0; i < paper.size(); ++i) {
    EXPECT_EQ(sweep.variants[i].paper_features.at("linear"), paper[i]);
  }
}

// The settings that define some of these rows. Table 1 is in unit_config.
struct Model {
  const char *name, *type, *option, *value;
  int layers, class_token_at = 10;
};

TEST(PaperRows, MatchPaperTables) {
  const Model rows[] = {
      {"vit_s_bn", "bn", "", "", 10},
      {"vit_s_star_power", "power", "groups", "heads", 10},
      {"vit_s_star_dtn_lambda0_uniform", "dtn", "position", "uniform", 10},
      {"vit_s_star_dtn_layers0", "dtn", "", "", 0, 0},
      {"vit_s_star_dtn_layers4", "dtn", "", "", 4, 4},
      {"vit_s_star_dtn_layers8", "dtn", "", "", 8, 8},
      {"vit_t_star_dtn_trunc_normal", "dtn", "init", "trunc_normal", 10},
      {"vit_s_star_dtn_official", "dtn", "variant", "official", 10},
  };
  for (const Model& row : rows) {
    SCOPED_TRACE(row.name);
    ExperimentConfig c = load_experiment(find_config(row.name, schemas()), {}, schemas());
    EXPECT_EQ(c.model.norm.type, row.type);
    EXPECT_EQ(c.model.norm_layers(), row.layers);
    EXPECT_EQ(c.model.class_token_at, row.class_token_at);
    if (*row.option) {
      EXPECT_EQ(*c.model.norm.find<std::string>(row.option), row.value);
    }
  }
  EXPECT_TRUE(load_experiment(find_config("vit_s_star_ln_mhsa_position", schemas()), {}, schemas())
                  .model.mhsa_position);
}

// The settings that differ between the models in the recipes of PVT, PVTv2 and Swin.
struct StageRecipe {
  const char* preset;
  double drop_path;
  std::optional<double> clip;
  double warmup_epochs, warmup_lr;
  int repeats;
};

TEST(StageRecipes, MatchPublishedRecipes) {
  for (const StageRecipe& want :
       {StageRecipe{"pvt_tiny", 0.1, {}, 5, 1e-6, 3}, StageRecipe{"pvt_small", 0.1, {}, 5, 1e-6, 3},
        StageRecipe{"pvt_medium", 0.3, 1.0, 5, 1e-6, 3},
        StageRecipe{"pvt_large", 0.3, 1.0, 5, 1e-6, 3},
        StageRecipe{"pvt_v2_b3", 0.3, 1.0, 5, 1e-6, 3},
        StageRecipe{"swin_t", 0.2, 5.0, 20, 1e-6, 1},
        StageRecipe{"swin_s", 0.3, 5.0, 20, 1e-6, 1}}) {
    for (const std::string norm : {"ln", "dtn"}) {
      const std::string name = std::string(want.preset) + "_" + norm;
      SCOPED_TRACE(name);
      const ExperimentConfig c = load_experiment(find_config(name, schemas()), {}, schemas());
      EXPECT_EQ(c.model.preset, want.preset);
      EXPECT_EQ(c.model.norm.type, norm);
      EXPECT_EQ(c.model.drop_path, want.drop_path);
      EXPECT_EQ(c.optim.clip_grad_norm, want.clip);
      EXPECT_EQ(c.optim.lr, 5e-4);
      EXPECT_EQ(c.optim.lr_scale_batch, 512);
      EXPECT_EQ(c.optim.weight_decay, 0.05);
      EXPECT_EQ(c.train.batch_size, 1024);
      EXPECT_EQ(c.train.ema, std::nullopt);
      EXPECT_EQ(c.schedule.epochs, 300);
      EXPECT_EQ(c.schedule.warmup_epochs, want.warmup_epochs);
      EXPECT_EQ(c.schedule.warmup_lr, want.warmup_lr);
      EXPECT_EQ(c.schedule.min_lr, 1e-5);
      const bool swin = c.model.family == "swin";
      EXPECT_EQ(c.schedule.warmup_prefix, swin);
      EXPECT_EQ(c.schedule.per == SchedulePer::kStep, swin);
      EXPECT_EQ(c.augment.repeats, want.repeats);
      EXPECT_EQ(c.augment.mixup, 0.8);
      EXPECT_EQ(c.data.crop_pct, 0.875);
      const PerStage<int> dtn_heads = {4, 4, 5, 8};
      EXPECT_EQ(c.model.num_heads == dtn_heads, !swin && norm == "dtn");
    }
  }
}

}  // namespace
}  // namespace dtn
