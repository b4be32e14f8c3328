// Compares every number of an analysis with PyTorch in float64. The expected values are in
// tests/golden/data/analysis.json, which tests/golden/make_analysis_goldens.py writes.
#include <fstream>
#include <nlohmann/json.hpp>

#include "analysis_cases.h"

namespace dtn {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kImages = 18;  // more than a batch
// Relative to the largest value of a key, if that is above 1.
constexpr double kTolerance = 1e-4;

ModelConfig small_model(const std::string& norm) {
  ModelConfig c;
  c.image_size = {6, 9};
  c.patch_size = 3;
  c.channels = 2;
  c.num_classes = 5;
  c.embed_dim = 12;
  c.depth = 3;
  c.num_heads = 3;
  c.mlp_ratio = 4;
  c.class_token_at = 2;
  c.norm.type = norm;
  return c;
}

ModelConfig deit() {
  ModelConfig c = small_model("ln");
  c.qkv_bias = true;
  c.class_token_at = 0;
  c.pos_embed = PosEmbed::kAll;
  c.eps = 1e-6;
  return c;
}

ModelConfig official() {
  ModelConfig c = small_model("dtn");
  c.norm.options = {{"variant", std::string("official")}};
  return c;
}

double largest(const Json& value) {
  double most = value.is_number() ? std::abs(value.get<double>()) : 0;
  if (value.is_structured()) {
    for (const Json& part : value) most = std::max(most, largest(part));
  }
  return most;
}

// Compares two analyses. Only lists of pca_points may be longer in `found` than in `wanted`.
void expect_same(const Json& found, const Json& wanted, const std::string& where, double bound) {
  ASSERT_EQ(found.is_number(), wanted.is_number()) << where;
  if (wanted.is_number()) {
    EXPECT_NEAR(found.get<double>(), wanted.get<double>(), bound) << where;
    return;
  }
  ASSERT_EQ(found.type(), wanted.type()) << where;
  if (wanted.is_object()) {
    for (const auto& [key, part] : wanted.items()) {
      ASSERT_TRUE(found.contains(key)) << where << "." << key;
      expect_same(found[key], part, where + "." + key, bound);
    }
  } else if (wanted.is_array()) {
    if (where.find("pca_points") == std::string::npos) {
      ASSERT_EQ(found.size(), wanted.size()) << where;
    }
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      expect_same(found.at(i), wanted[i], where + "[" + std::to_string(i) + "]", bound);
    }
  }
}

class AnalysisGolden : public test::AnalysisFiles {};

TEST_F(AnalysisGolden, EveryKeyMatches) {
  std::ifstream in(DTN_TESTS_FOLDER "/golden/data/analysis.json");
  const Json golden = Json::parse(in);
  AnalysisOptions options;
  options.subjects = {subject("ln", deit()), subject("dtn", small_model("dtn")),
                      subject("dtn official", official()), subject("bn", small_model("bn"))};
  options.inputs = inputs(deit(), kImages, 5);
  const Json found = analyze(options).json;
  ASSERT_EQ(found["checkpoints"].size(), golden["checkpoints"].size());
  std::size_t keys = 0;
  for (const Json& checkpoint : found["checkpoints"]) {
    const std::string name = checkpoint["name"];
    for (const auto& [key, wanted] : golden["checkpoints"][name].items()) {
      const double bound = kTolerance * std::max(1.0, largest(wanted));
      expect_same(checkpoint[key], wanted, name + ": " + key, bound);
      ++keys;
    }
  }
  EXPECT_EQ(keys, 4u * 28);
  ASSERT_EQ(found["cka"].size(), golden["cka"].size());
  for (std::size_t i = 0; i < golden["cka"].size(); ++i) {
    expect_same(found["cka"][i]["matrix"], golden["cka"][i], "cka", kTolerance);
  }
}

}  // namespace
}  // namespace dtn
