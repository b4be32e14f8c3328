// Weights of diffusion transformers from public files.
#include <algorithm>

#include "dtn/models/weights.h"
#include "tiny_dit.h"

namespace dtn {
namespace {

ModelConfig config() { return test::tiny_dit(ConditionInto::kAdalnZero); }

// The weights of a model as a file.
NamedTensors file_of(Classifier& model, const std::string& prefix = "") {
  NamedTensors file;
  for (const auto& [name, tensor] : named_values(model.parameters())) {
    file.emplace_back(prefix + name, tensor.clone());
  }
  return file;
}

test::Doubles values_of(Classifier& model) { return test::doubles(model.parameters().values()); }

// A model with the weights of a public file: only the positions are those of the formula.
struct Source {
  Classifier model{config(), 1};
  Source() {
    test::perturb(model.parameters());
    Parameter& p = *model.parameters().find("pos_embed");
    Tensor value = p.variable.value();
    p.init.fill(value, 0, p.name);
  }
};

TEST(DitWeights, LoadUnderEveryPrefix) {
  Source from;
  for (const char* prefix : {"", "module.", "ema.", "model.", "module.ema."}) {
    SCOPED_TRACE(prefix);
    Classifier to(config(), 2);
    const auto notes = load_adapted(to, file_of(from.model, prefix), "file");
    EXPECT_EQ(values_of(to), values_of(from.model));
    EXPECT_EQ(notes.size(), *prefix ? 1u : 0u);
  }
}

// A checkpoint of the public code has both.
TEST(DitWeights, PreferTheMovingAverage) {
  Source average, last;
  test::perturb(last.model.parameters(), 0.5);
  NamedTensors both = file_of(last.model, "model.");
  for (auto& named : file_of(average.model, "ema.")) both.push_back(named);
  Classifier to(config(), 2);
  const auto notes = load_adapted(to, both, "file");
  EXPECT_EQ(values_of(to), values_of(average.model));
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].find("removed the prefix 'ema.'"), std::string::npos) << notes[0];
  EXPECT_NE(notes[0].find("not used (model."), std::string::npos) << notes[0];
}

TEST(DitWeights, PositionsMayBeMissing) {
  Source from;
  NamedTensors file = file_of(from.model);
  std::erase_if(file, [](const auto& named) { return named.first == "pos_embed"; });
  Classifier to(config(), 2);
  EXPECT_TRUE(load_adapted(to, file, "file").empty());
  EXPECT_EQ(values_of(to), values_of(from.model));
  std::erase_if(file, [](const auto& named) { return named.first == "final_layer.linear.bias"; });
  EXPECT_THROW(load_adapted(to, file, "file"), DataError);
}

TEST(DitWeights, PositionsOfAnotherGridAreComputed) {
  Source from;
  ModelConfig larger = config();
  larger.image_size = {8, 6};
  Classifier to(larger, 2), fresh(larger, 3);
  const auto notes =
      load_adapted(to, file_of(from.model), "file", {.image_size = config().image_size});
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(notes[0], "pos_embed: computed for 4 x 3 by its formula");
  EXPECT_EQ(test::doubles(to.parameters().find("pos_embed")->variable.value()),
            test::doubles(fresh.parameters().find("pos_embed")->variable.value()));
  EXPECT_EQ(
      test::doubles(to.parameters().find("blocks.1.attn.qkv.weight")->variable.value()),
      test::doubles(from.model.parameters().find("blocks.1.attn.qkv.weight")->variable.value()));
}

// A LayerNorm without weight and bias leaves no trace in a file.
TEST(DitWeights, DtnStartsFromLayerNorm) {
  Source from;
  ModelConfig c = config();
  c.norm.type = "dtn";
  Classifier to(c, 2), fresh(c, 2);
  const auto notes = load_adapted(to, file_of(from.model), "file");
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(notes[0],
            "4 norms, blocks.0.norm1 to blocks.1.norm2: LayerNorm in file; mean_norm_weight, "
            "pos_proj.bias, pos_proj.weight, var_norm_weight left at the initialisation");
  for (const Parameter& p : to.parameters().parameters()) {
    const bool is_new = p.name.find(".norm") != std::string::npos;
    ParameterStore& other = is_new ? fresh.parameters() : from.model.parameters();
    EXPECT_EQ(test::doubles(p.variable.value()),
              test::doubles(other.find(p.name)->variable.value()))
        << p.name;
  }
}

// A file with other positions of the same grid keeps them.
TEST(DitWeights, PositionsOfTheFileAreKept) {
  Source from;
  Tensor value = from.model.parameters().find("pos_embed")->variable.value();
  value.data<float>()[7] = 3;
  Classifier to(config(), 2);
  EXPECT_TRUE(
      load_adapted(to, file_of(from.model), "file", {.image_size = config().image_size}).empty());
  EXPECT_EQ(values_of(to), values_of(from.model));
}

}  // namespace
}  // namespace dtn
