// Loading the weights of LayerNorm models into models with other normalizers.
#include "models/weights/norm_transfer.h"

#include "dtn/models/weights.h"
#include "dtn/nn/normalizer.h"
#include "norm_cases.h"
#include "tiny_vit.h"

namespace dtn {
namespace {

NamedTensors copies(Classifier& model) {
  NamedTensors result;
  for (auto& [name, tensor] : named_values(model.parameters())) {
    result.emplace_back(name, tensor.clone());
  }
  return result;
}

ModelConfig with_norm(const std::string& type) {
  ModelConfig c = test::mean_vit();
  c.norm.type = type;
  return c;
}

// Finds a tensor by name; undefined if there is none.
Tensor find(const NamedTensors& tensors, const std::string& name) {
  for (const auto& [key, tensor] : tensors) {
    if (key == name) return tensor;
  }
  return {};
}

std::string error_of(Classifier& model, const NamedTensors& tensors) {
  try {
    load_adapted(model, tensors, "file");
  } catch (const DataError& e) {
    return e.what();
  }
  return "";
}

TEST(NormTransfer, FillsEveryNormalizerWithWeightAndBias) {
  Classifier source(with_norm("ln"), 1);
  test::perturb(source.parameters());
  const NamedTensors file = copies(source);
  for (const NormSchema& schema : norm_registry().schemas()) {
    if (!schema.stands_alone()) continue;
    SCOPED_TRACE(schema.type);
    const ModelConfig config = with_norm(schema.type);
    Classifier model(config, 2), fresh(config, 2);
    const auto notes = load_adapted(model, file, "file");
    EXPECT_LE(notes.size(), 1u);
    std::int64_t left = 0;
    for (const Parameter& p : model.parameters().parameters()) {
      const Tensor of_file = find(file, p.name), value = p.variable.value();
      const bool taken = of_file.defined() && of_file.shape() == value.shape();
      left += !taken;
      EXPECT_TRUE(test::same_bits(
          value, taken ? of_file : fresh.parameters().find(p.name)->variable.value()))
          << p.name;
      const bool is_norms = p.name.find(".norm1.") != std::string::npos ||
                            p.name.find(".norm2.") != std::string::npos;
      EXPECT_TRUE(taken || is_norms) << p.name;
    }
    EXPECT_TRUE(left == 0 || notes.size() == 1) << "whatever starts anew is told";
  }
}

TEST(NormTransfer, ReportsReinitializedParameters) {
  Classifier source(with_norm("ln"), 1), dtn(with_norm("dtn"), 2), rms(with_norm("rms"), 2);
  const auto notes = load_adapted(dtn, copies(source), "some.file");
  ASSERT_EQ(notes.size(), 1u);
  for (const char* word :
       {"6 norms", "blocks.0.norm1", "blocks.2.norm2", "some.file", "mean_norm_weight",
        "var_norm_weight", "pos_proj.weight", "pos_proj.bias"}) {
    EXPECT_NE(notes[0].find(word), std::string::npos) << word << " is not in: " << notes[0];
  }
  const auto of_rms = load_adapted(rms, copies(source), "some.file");
  ASSERT_EQ(of_rms.size(), 1u);
  EXPECT_NE(of_rms[0].find("bias not used"), std::string::npos) << of_rms[0];
}

// LayerNorm's weights have no place in a normalizer without affine, and the note says so.
TEST(NormTransfer, ReportsUnusedWeightsWithoutAffine) {
  Classifier source(with_norm("ln"), 1);
  for (const NormSchema& schema : norm_registry().schemas()) {
    if (!schema.stands_alone() || !test::has_weight(schema.type)) continue;
    ModelConfig config = with_norm(schema.type);
    config.norm.affine = false;
    Classifier model(config, 2);
    const auto notes = load_adapted(model, copies(source), "some.file");
    ASSERT_EQ(notes.size(), 1u) << schema.type;
    for (const char* words : {"6 norms", "blocks.0.norm1 to blocks.2.norm2", "not used"}) {
      EXPECT_NE(notes[0].find(words), std::string::npos) << schema.type << ": " << notes[0];
    }
    EXPECT_TRUE(notes[0].find("weight, bias not used") != std::string::npos ||
                notes[0].find("bias, weight not used") != std::string::npos)
        << notes[0];
    // A model with affine needs the tensors.
    Classifier with(with_norm(schema.type), 3);
    EXPECT_NE(error_of(with, copies(model)).find("is missing"), std::string::npos) << schema.type;
  }
}

TEST(NormTransfer, StartsLambdasAtInitLambda) {
  ModelConfig near = with_norm("dtn"), half = near;
  near.norm.options = {{"init_lambda", 0.99}};
  Classifier source(with_norm("ln"), 1), model(near, 2), other(half, 3);
  load_adapted(model, copies(source), "file");
  const Tensor logits = model.parameters().find("blocks.0.norm1.var_norm_weight")->variable.value();
  EXPECT_NEAR(test::element(logits, 0), std::log(99), 1e-5);
  // Lambdas in the file take precedence.
  EXPECT_TRUE(load_adapted(model, copies(other), "file").empty());
  EXPECT_EQ(test::element(logits, 0), 0);
}

// A file with only some of a normalizer's tensors is damaged.
TEST(NormTransfer, RejectsIncompleteNormalizers) {
  Classifier source(with_norm("dtn"), 1), model(with_norm("dtn"), 2);
  NamedTensors file = copies(source);
  std::erase_if(file, [](const auto& t) { return t.first == "blocks.1.norm2.var_norm_weight"; });
  EXPECT_NE(error_of(model, file).find("blocks.1.norm2.var_norm_weight"), std::string::npos);

  Classifier ln(with_norm("ln"), 3);
  file = copies(ln);
  std::erase_if(file, [](const auto& t) { return t.first == "blocks.1.norm2.bias"; });
  EXPECT_NE(error_of(model, file).find("blocks.1.norm2."), std::string::npos);
  EXPECT_NE(error_of(ln, copies(source)).find("has no place"), std::string::npos)
      << "nor is DTN LayerNorm";
}

// The class token comes first, and DTN normalizes the other tokens: near lambda 1 the model
// computes the same function.
TEST(NormTransfer, KeepsFunctionNearLambdaOne) {
  ModelConfig ln = test::deit_vit(), dtn = ln;
  dtn.norm.type = "dtn";
  Classifier source(ln, 1, DType::kFloat64);
  test::perturb(source.parameters());
  const Tensor images = test::some_images(ln, 4, DType::kFloat64);
  Context ctx = test::computing_in(DType::kFloat64);
  const auto want = test::doubles(source.forward(ctx, images).value());
  double last = 1e9;
  for (double lambda : {0.9, 0.99, 0.999, 0.9999}) {
    dtn.norm.options = {{"prefix", std::string("ln")}, {"init_lambda", lambda}};
    Classifier model(dtn, 2, DType::kFloat64);
    load_adapted(model, copies(source), "file");
    const auto got = test::doubles(model.forward(ctx, images).value());
    const double apart = test::max_abs_difference(got, want);
    EXPECT_GT(apart, 0);
    EXPECT_LT(apart, 0.2 * last) << "a tenth of lambda's distance, about a tenth of the change";
    last = apart;
  }
}

}  // namespace
}  // namespace dtn
