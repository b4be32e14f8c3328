// Costs of single normalizers, without training.
#include "apps/sweep/norm_cost_table.h"

#include <gtest/gtest.h>

#include "dtn/config/load.h"
#include "dtn/models/complexity.h"
#include "dtn/tasks/registries.h"
#include "texts.h"

namespace dtn {
namespace {

using test::expect_contains;

// The table counts single layers. The models that contain these layers agree.
TEST(NormCostTables, AgreeWithModels) {
  const ConfigSchemas schemas = standard_registries().schemas();
  const auto model = [&](const std::string& norm) {
    return parse_experiment(
               "model: {preset: vit_s_star, norm: " + norm + "}\nschedule: {epochs: 1}\n", "test",
               {}, schemas)
        .model;
  };
  NormCosts costs;
  costs.rows = {{"LN", model("ln"), "2C", "O(BCT)"},
                {"ScaleNorm", model("scale"), "C", ""},
                {"DTN", model("dtn"), "2C + 3H", "O(BCT^2)"}};
  costs.notes = {"two"};
  const TableText table = norm_cost_table(costs, standard_registries());
  ASSERT_EQ(table.rows.size(), 3u);
  EXPECT_EQ(table.rows[0], (std::vector<std::string>{"LN", "864 (2C)", "O(BCT)", "-", "-"}));
  EXPECT_EQ(table.rows[1][1], "432 (C)");
  EXPECT_EQ(table.rows[1][2], "-");
  EXPECT_EQ(table.rows[2][1], "918 (2C + 3H)");

  const Complexity ln = complexity_of(costs.rows[0].model),
                   dtn = complexity_of(costs.rows[2].model);
  constexpr int kLayers = 20;  // two in each of the ten blocks before the class token
  EXPECT_EQ(dtn.parameters - ln.parameters, kLayers * (918 - 864));
  EXPECT_EQ(table.rows[2][3],
            count_text((dtn.paper_multiply_adds - ln.paper_multiply_adds) / kLayers));
  EXPECT_EQ(table.rows[2][4], count_text((dtn.multiply_adds - ln.multiply_adds) / kLayers));

  const std::vector<std::string> notes = norm_cost_notes(costs);
  ASSERT_EQ(notes.size(), 2u);
  expect_contains(notes[0], "C = 432 channels, H = 9 heads, T = 196 tokens");
  EXPECT_EQ(notes[1], "two");
}

}  // namespace
}  // namespace dtn
