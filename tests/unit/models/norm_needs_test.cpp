// Normalizers that need more than most models have.
#include <algorithm>
#include <set>

#include "dtn/models/classifier.h"
#include "dtn/models/presets.h"
#include "dtn/nn/normalizer.h"
#include "texts.h"

namespace dtn {
namespace {

// A family must list a normalizer that needs more than others.
TEST(NormNeeds, AreMetBySomeFamilies) {
  std::set<std::string> types;
  for (const NormEntry& row : norm_registry()) {
    if (row.schema.needs.empty()) continue;
    types.insert(row.schema.type);
    bool met = false;
    for (const ModelSchema& family : model_registry().schemas()) {
      met = met || std::ranges::count(family.meets, row.schema.type) > 0;
    }
    EXPECT_TRUE(met) << row.schema.type;
    ModelConfig vit = preset_registry().at("vit_t").model;
    vit.norm.type = row.schema.type;
    test::expect_error<ConfigError>([&] { Classifier(vit, 1, DType::kFloat32, kMeta); },
                                    {cat("'", row.schema.type, "' needs "), "family vit"});
  }
  EXPECT_EQ(types, std::set<std::string>({"none", "cin", "adain", "adain_mlp", "cbn", "spade"}));
}

}  // namespace
}  // namespace dtn
