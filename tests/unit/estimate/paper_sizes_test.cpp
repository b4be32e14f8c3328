// The paper's other figures in the shipped sweeps: top-5, sizes, and corruption errors. The models
// have the sizes that are listed here.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>

#include "config/sweeps/sweep_config.h"
#include "dtn/config/load.h"
#include "dtn/models/complexity.h"
#include "dtn/tasks/registries.h"

namespace dtn {
namespace {

const SweepConfig& sweep_of(const std::string& name) {
  static std::map<std::string, SweepConfig> sweeps;
  const auto [at, fresh] = sweeps.try_emplace(name);
  if (fresh) {
    const ConfigSchemas schemas = standard_registries().schemas();
    at->second = load_sweep(find_config(name, schemas), {}, schemas);
  }
  return at->second;
}

const SweepVariant& variant_of(const std::string& sweep, const std::string& name) {
  const auto& variants = sweep_of(sweep).variants;
  const auto at = std::ranges::find(variants, name, &SweepVariant::name);
  if (at == variants.end()) throw Error("no variant " + name);
  return *at;
}

// A row of Tables 1, 2, 9 and 12: the paper's top-5, parameters and multiply-adds as it prints them
// (0: not printed), and ours in units of a thousand and of a million.
struct PaperSize {
  const char *sweep, *variant;
  double top5, parameters, multiply_adds;
  std::int64_t our_parameters, our_multiply_adds;
};
constexpr PaperSize kPaperSizes[] = {
    {"table1_models", "vit_t_deit_ln", 91.3, 5.7e6, 1.26e9, 5711, 1254},
    {"table1_models", "vit_t_ln", 91.3, 5.7e6, 0, 5710, 1248},
    {"table1_models", "vit_t_star_deit_ln", 91.4, 5.7e6, 1.26e9, 5711, 1254},
    {"table1_models", "vit_t_star_ln", 91.4, 5.7e6, 0, 5710, 1248},
    {"table1_models", "vit_t_star_dtn", 91.7, 5.7e6, 1.40e9, 5711, 1395},
    {"table1_models", "vit_s_deit_ln", 95.0, 22.1e6, 4.60e9, 22037, 4599},
    {"table1_models", "vit_s_ln", 95.0, 22.1e6, 0, 22036, 4578},
    {"table1_models", "vit_s_dtn", 95.3, 22.1e6, 4.88e9, 22037, 4873},
    {"table1_models", "vit_s_star_deit_ln", 95.2, 27.8e6, 5.77e9, 27777, 5762},
    {"table1_models", "vit_s_star_ln", 95.2, 27.8e6, 0, 27777, 5736},
    {"table1_models", "vit_s_star_dtn", 95.8, 27.8e6, 6.08e9, 27778, 6068},
    {"table1_models", "vit_b_deit_ln", 95.9, 86.5e6, 17.58e9, 86540, 17564},
    {"table1_models", "vit_b_ln", 95.9, 86.5e6, 0, 86539, 17487},
    {"table1_models", "vit_b_dtn", 96.0, 86.5e6, 18.13e9, 86541, 18077},
    {"table1_models", "vit_b_star_deit_ln", 95.8, 86.5e6, 17.58e9, 86540, 17564},
    {"table1_models", "vit_b_star_ln", 95.8, 86.5e6, 0, 86539, 17487},
    {"table1_models", "vit_b_star_dtn", 96.1, 86.5e6, 18.13e9, 86541, 18077},
    {"table2_stages", "pvt_tiny_ln", 92.3, 0, 1.90e9, 13229, 1933},
    {"table2_stages", "pvt_tiny_dtn", 93.1, 0, 2.05e9, 13230, 2012},
    {"table2_stages", "pvt_small_ln", 95.0, 0, 3.80e9, 24486, 3816},
    {"table2_stages", "pvt_small_dtn", 95.6, 0, 4.15e9, 24487, 4017},
    {"table2_stages", "swin_t_ln", 95.5, 0, 4.51e9, 28288, 4491},
    {"table2_stages", "swin_t_dtn", 96.0, 0, 5.09e9, 28290, 4719},
    {"table9_large", "pvt_large_ln", 0, 61.4e6, 9.8e9, 61369, 9814},
    {"table9_large", "pvt_large_dtn", 0, 61.4e6, 10.5e9, 61371, 10571},
    {"table9_large", "swin_s_ln", 0, 50e6, 8.7e9, 49606, 8741},
    {"table9_large", "swin_s_dtn", 0, 50e6, 9.4e9, 49610, 9324},
    {"table9_large", "pvt_v2_b3_ln", 0, 45.2e6, 6.9e9, 45239, 6897},
    {"table9_large", "pvt_v2_b3_dtn", 0, 45.2e6, 7.4e9, 45240, 7394},
    {"table12_families", "swin_t_ln", 0, 29e6, 4.5e9, 28288, 4491},
    {"table12_families", "swin_t_dtn", 0, 29e6, 5.1e9, 28290, 4719},
    {"table12_families", "swin_s_ln", 0, 50e6, 8.7e9, 49606, 8741},
    {"table12_families", "swin_s_dtn", 0, 50e6, 9.4e9, 49610, 9324},
    {"table12_families", "levit_128s_bn", 0, 7.8e6, 305e6, 7777, 305},
    {"table12_families", "levit_128s_dtn", 0, 7.8e6, 320e6, 7778, 317},
    {"table12_families", "t2t_vit_t_14_ln", 0, 21.5e6, 6.1e9, 21541, 6089},
    {"table12_families", "t2t_vit_t_14_dtn", 0, 21.5e6, 6.4e9, 21542, 6366},
};

std::optional<std::int64_t> printed(double value) {
  return value == 0 ? std::nullopt : std::optional<std::int64_t>(std::llround(value));
}

TEST(ShippedSweeps, MatchSizesOfPaperTables) {
  std::map<std::string, std::size_t> rows;
  for (const PaperSize& row : kPaperSizes) {
    SCOPED_TRACE(std::string(row.sweep) + ": " + row.variant);
    ++rows[row.sweep];
    const SweepVariant& variant = variant_of(row.sweep, row.variant);
    EXPECT_EQ(variant.paper_parameters, printed(row.parameters));
    EXPECT_EQ(variant.paper_multiply_adds, printed(row.multiply_adds));
    EXPECT_EQ(variant.paper_figures.contains("top5"), row.top5 > 0);
    if (row.top5 > 0) {
      EXPECT_EQ(variant.paper_figures.at("top5"), row.top5);
    }
    const Complexity cost = complexity_of(variant.config.model);
    EXPECT_EQ(std::llround(static_cast<double>(cost.parameters) / 1e3), row.our_parameters);
    EXPECT_EQ(std::llround(cost.paper_multiply_adds / 1e6), row.our_multiply_adds);
  }
  for (const auto& [sweep, count] : rows) EXPECT_EQ(sweep_of(sweep).variants.size(), count);
}

// The class token joins after the blocks with DTN. The notes of the sweep have these numbers.
TEST(ShippedSweeps, SizesOfTable8) {
  const std::pair<const char*, int> rows[] = {{"layers0", 5762},
                                              {"layers4", 5884},
                                              {"layers6", 5946},
                                              {"layers8", 6007},
                                              {"layers10", 6068}};
  for (const auto& [variant, millions] : rows) {
    const ModelConfig& model = variant_of("table8_layers", variant).config.model;
    EXPECT_EQ(std::llround(complexity_of(model).paper_multiply_adds / 1e6), millions) << variant;
  }
}

TEST(ShippedSweeps, CorruptionErrorsOfTable6) {
  const std::pair<const char*, double> rows[] = {{"resnet50_bn", 76.7},
                                                 {"vit_s_ln", 42.8},
                                                 {"vit_s_dtn", 40.6},
                                                 {"vit_s_star_ln", 41.9},
                                                 {"vit_s_star_dtn", 38.0}};
  for (const auto& [name, mce] : rows) {
    SCOPED_TRACE(name);
    const PaperSuite& paper = variant_of("table6_robustness", name).paper_suites.at("imagenet-c");
    EXPECT_EQ(paper.figure, mce);
    ASSERT_EQ(paper.corruption_errors.size(), kPaperCorruptions);
    const double sum =
        std::accumulate(paper.corruption_errors.begin(), paper.corruption_errors.end(), 0.0);
    // Each printed error is rounded to a whole number, and so is within 0.5.
    EXPECT_NEAR(sum / kPaperCorruptions, mce, 0.5);
  }
}

}  // namespace
}  // namespace dtn
