#include <set>

#include "norm_cases.h"

namespace dtn {
namespace {

TEST(NormRegistry, ListsEveryNormalizerOnceWithItsHelp) {
  std::set<std::string> types;
  for (const NormEntry& row : norm_registry()) {
    EXPECT_TRUE(types.insert(row.schema.type).second) << row.schema.type;
    EXPECT_FALSE(row.schema.doc.empty()) << row.schema.type;
    for (const OptionSchema& option : row.schema.options) {
      EXPECT_FALSE(option.doc.empty()) << row.schema.type << "." << option.key;
    }
  }
  EXPECT_TRUE(types.contains("ln"));
  EXPECT_TRUE(types.contains("dtn"));
  EXPECT_EQ(norm_registry().schemas().size(), norm_registry().size());
}

TEST(NormRegistry, ErrorForUnknownTypeListsKnownTypes) {
  NormConfig config;
  config.type = "batchnorm9000";
  ParameterStore store;
  try {
    make_normalizer(config, {8, 2, 1e-5}, {store, "norm"});
    FAIL();
  } catch (const ConfigError& e) {
    std::string message = e.what();
    for (const char* word : {"batchnorm9000", "ln", "dtn"}) {
      EXPECT_NE(message.find(word), std::string::npos) << message;
    }
  }
}

TEST(NormRegistry, BuildsEveryNormalizer) {
  for (const NormEntry& row : norm_registry()) EXPECT_NE(row.make, nullptr) << row.schema.type;
}

// Options missing from a config get their defaults.
TEST(NormRegistry, CompletesOptions) {
  for (const NormEntry& row : norm_registry()) {
    if (!row.schema.stands_alone()) continue;
    NormConfig bare, full;
    bare.type = full.type = row.schema.type;
    for (const OptionSchema& o : row.schema.options) {
      full.options.push_back({o.key, o.default_value});
    }
    NormShape shape{12, 4, 1e-5};
    auto a = test::build_norm(bare, shape, DType::kFloat32);
    auto b = test::build_norm(full, shape, DType::kFloat32);
    EXPECT_TRUE(test::same_bits(a->store.values(), b->store.values())) << row.schema.type;
  }
}

TEST(NormRegistry, InitializesDeterministically) {
  for (const test::NormCase& c : test::norm_cases()) {
    const NormShape shape{12, 4, 1e-5, {2, 4}};
    auto a = test::build_norm(c.config, shape, DType::kFloat32);
    auto b = test::build_norm(c.config, shape, DType::kFloat32);
    EXPECT_TRUE(test::same_bits(a->store.values(), b->store.values())) << c.name;
    for (const Parameter& p : a->store.parameters()) {
      EXPECT_TRUE(p.name.starts_with("norm.")) << p.name;
    }
  }
}

// A fixed lambda needs no logits, for any type of its number.
TEST(DtnParameters, HaveNoLogitsWhenLambdaIsFixed) {
  for (OptionValue lambda : {OptionValue(1.0), OptionValue(std::int64_t{1})}) {
    NormConfig config;
    config.type = "dtn";
    config.options = {{"lambda", lambda}};
    ParameterStore store;
    make_normalizer(config, {8, 2, 1e-5}, {store, "norm"});
    EXPECT_EQ(store.find("norm.mean_norm_weight"), nullptr);
    EXPECT_EQ(store.find("norm.var_norm_weight"), nullptr);
    EXPECT_NE(store.find("norm.pos_proj.weight"), nullptr);
  }
}

// Names and layout are those of the released code; lambda has no weight decay.
TEST(DtnParameters, MatchReleasedCode) {
  NormConfig config;
  config.type = "dtn";
  auto built = test::build_norm(config, {12, 4, 1e-5}, DType::kFloat32);
  std::vector<std::pair<std::string, Shape>> want = {{"norm.weight", {12}},
                                                     {"norm.bias", {12}},
                                                     {"norm.mean_norm_weight", {4}},
                                                     {"norm.var_norm_weight", {4}},
                                                     {"norm.pos_proj.weight", {4, 3}},
                                                     {"norm.pos_proj.bias", {4}}};
  ASSERT_EQ(built->store.parameters().size(), want.size());
  for (const auto& [name, shape] : want) {
    const Parameter* p = built->store.find(name);
    ASSERT_NE(p, nullptr) << name;
    EXPECT_EQ(p->shape, shape) << name;
    EXPECT_EQ(p->decay, name == "norm.pos_proj.weight" ? Decay::kYes : Decay::kNo) << name;
  }
}

// Only parameters in use exist. A position table has weight decay like the relative positions.
TEST(DtnParameters, ExistOnlyIfUsed) {
  auto names = [](const char* position, bool only_var) {
    NormConfig config;
    config.type = "dtn";
    config.options = {{"position", std::string(position)}, {"only_var", only_var}};
    auto built = test::build_norm(config, {12, 4, 1e-5, {3, 2}}, DType::kFloat32);
    std::set<std::string> all;
    for (const Parameter& p : built->store.parameters()) all.insert(p.name.substr(5));
    if (const Parameter* table = built->store.find("norm.position_table")) {
      EXPECT_EQ(table->shape, Shape({4, 6, 6}));
      EXPECT_EQ(table->decay, Decay::kYes);
    }
    return all;
  };
  using Names = std::set<std::string>;
  EXPECT_EQ(names("uniform", false),
            (Names{"weight", "bias", "mean_norm_weight", "var_norm_weight"}));
  EXPECT_EQ(names("banded:3", true), (Names{"weight", "bias", "var_norm_weight"}));
  EXPECT_EQ(names("free", true), (Names{"weight", "bias", "var_norm_weight", "position_table"}));
}

// Eq. 7: head k j + i attends to the offset (j, i) - (k - 1) / 2. With nine heads, k is 3.
TEST(DtnParameters, InitializeLocallyAsInEquation7) {
  NormConfig config;
  config.type = "dtn";
  auto built = test::build_norm(config, {20, 10, 1e-5}, DType::kFloat64, 0);
  Tensor a = built->store.find("norm.pos_proj.weight")->variable.value();
  for (int j = 0; j < 3; ++j) {
    for (int i = 0; i < 3; ++i) {
      const double* row = a.data<double>() + (3 * j + i) * 3;
      EXPECT_EQ(row[0], 2 * (j - 1)) << j << i;
      EXPECT_EQ(row[1], 2 * (i - 1)) << j << i;
      EXPECT_EQ(row[2], -1) << j << i;
    }
  }
  const double* last = a.data<double>() + 27;  // the tenth head: truncated normal
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(last[i] != 0 && std::abs(last[i]) < 0.12);
  for (const char* name : {"norm.mean_norm_weight", "norm.var_norm_weight", "norm.bias"}) {
    EXPECT_EQ(test::max_abs(test::doubles(built->store.find(name)->variable.value())), 0);
  }
}

}  // namespace
}  // namespace dtn
