// The files of dtn-export, read back and evaluated operator by operator, against the model.
#include "apps/export/onnx_vit.h"

#include "onnx_interpreter.h"
#include "temp_folder.h"
#include "texts.h"
#include "tiny_vit.h"

namespace dtn {
namespace {

using namespace dtn::test;

// Changes the weights and the batch statistics, as training does.
void train_a_little(Classifier& model) {
  perturb(model.parameters());
  std::uint32_t stream = 300;
  for (const Buffer& b : model.parameters().buffers()) {
    Doubles values = doubles(b.value);
    const Doubles shift = doubles(representable(random_tensor(b.shape, stream++)));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] += std::abs(shift[i]);
    Tensor value = b.value;
    value.copy_from(as(from_doubles(values, b.shape, DType::kFloat32), value.dtype()));
  }
}

OnnxFile written(const onnx::Graph& graph) {
  const TempFolder folder;
  graph.write(folder.path() / "written.onnx", "test");
  static std::string kept;  // memory of the returned file
  kept = folder.read("written.onnx");
  return OnnxFile(kept);
}

// Largest difference between file and model in float64, relative to the model's largest logit.
double difference(const ModelConfig& config, int opset, std::int64_t batch) {
  Classifier exported(config, 1), model(config, 1, DType::kFloat64);
  train_a_little(exported);
  train_a_little(model);
  const Tensor images = some_images(config, batch, DType::kFloat64);
  Context ctx = computing_in(DType::kFloat64);
  const Doubles want = doubles(model.forward(ctx, images).value());

  const OnnxFile file = written(onnx::graph_of(exported, opset));
  const Array got = OnnxInterpreter(file).run(
      {{batch, config.channels, config.image_size.height, config.image_size.width},
       doubles(images)});
  EXPECT_EQ(got.shape, (Extents{batch, exported.outputs()}));
  double most = 0, worst = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    most = std::max(most, std::abs(want[i]));
    worst = std::max(worst, std::abs(want[i] - got.values.at(i)));
  }
  return worst / most;
}

// Folded constants are rounded to float32 once; the error passes through a few layers.
constexpr double kBound = 1e-5;

ModelConfig with_norm(ModelConfig c, const std::string& type, std::vector<NormOption> options) {
  c.norm.type = type;
  c.norm.options = std::move(options);
  for (const OptionSchema& option : norm_registry().at(type).schema.options) {
    const bool given = std::ranges::any_of(
        c.norm.options, [&](const NormOption& o) { return o.key == option.key; });
    if (!given) c.norm.options.push_back({option.key, option.default_value});
  }
  return c;
}

ModelConfig dtn_vit(std::vector<NormOption> options) {
  ModelConfig c = paper_vit();
  c.image_size = 20;  // 4 x 4 tokens, which can be pooled
  return with_norm(c, "dtn", std::move(options));
}

TEST(OnnxVit, MatchesLogitsForEveryOption) {
  std::vector<ModelConfig> configs = checkpoint_vits();
  configs.push_back(deit_vit());
  configs.push_back(biased_vit());
  for (const ModelConfig& config : configs) {
    for (std::int64_t batch : {1, 3}) {
      EXPECT_LT(difference(config, onnx::kMinOpset, batch), kBound) << config.preset;
    }
  }
}

TEST(OnnxVit, MatchesLogitsWithDtn) {
  using S = std::string;
  const std::vector<std::vector<NormOption>> variants = {
      {},
      {{"variant", S("official")}},
      {{"pool", std::int64_t{2}}},
      {{"pool", std::int64_t{2}}, {"variant", S("official")}},
      {{"position", S("uniform")}},
      {{"position", S("free")}, {"pool", std::int64_t{2}}},
      {{"position", S("free")}},
      {{"position", S("banded:3")}},
      {{"lambda", 0.25}},
      {{"lambda", 0.0}, {"position", S("uniform")}},
      {{"only_var", true}},
      {{"prefix", S("ln")}},
  };
  for (std::size_t i = 0; i < variants.size(); ++i) {
    EXPECT_LT(difference(dtn_vit(variants[i]), onnx::kMinOpset, 2), kBound) << "variant " << i;
  }
  EXPECT_LT(difference(with_norm(wide_vit(), "dtn", {}), onnx::kMinOpset, 2), kBound);
  ModelConfig mean = with_norm(mean_vit(), "dtn", {});
  EXPECT_LT(difference(mean, onnx::kMinOpset, 2), kBound);
  for (Pooling pool : {Pooling::kMean, Pooling::kCls}) {
    ModelConfig behind = with_norm(prefix_vit(), "dtn", {{"prefix", S("ln")}});
    behind.pool = pool;
    EXPECT_LT(difference(behind, onnx::kMinOpset, 2), kBound);
  }
}

TEST(OnnxVit, MatchesLogitsWithOtherNorms) {
  for (const char* type : {"rms", "scale", "bn", "in", "gn", "sn", "power", "pono", "dln"}) {
    EXPECT_LT(difference(with_norm(paper_vit(), type, {}), onnx::kMinOpset, 2), kBound) << type;
  }
  const ModelConfig official = with_norm(paper_vit(), "in", {{"variant", std::string("official")}});
  EXPECT_LT(difference(official, onnx::kMinOpset, 2), kBound);
}

TEST(OnnxVit, MatchesLogitsWithoutAffine) {
  for (const char* type : {"ln", "dtn", "rms", "scale", "bn", "in", "gn", "sn", "power"}) {
    ModelConfig config = with_norm(paper_vit(), type, {});
    config.norm.affine = false;
    EXPECT_LT(difference(config, onnx::kMinOpset, 2), kBound) << type;
  }
  ModelConfig prefix = with_norm(prefix_vit(), "dtn", {{"prefix", std::string("ln")}});
  prefix.norm.affine = false;
  EXPECT_LT(difference(prefix, onnx::kMinOpset, 2), kBound);
}

TEST(OnnxVit, MatchesLogitsAtEveryOpset) {
  for (int opset = onnx::kMinOpset; opset <= onnx::kMaxOpset; ++opset) {
    EXPECT_LT(difference(dtn_vit({}), opset, 1), kBound) << opset;
    EXPECT_LT(difference(checkpoint_vits()[4], opset, 1), kBound) << opset;  // gelu_tanh, mean
  }
}

TEST(OnnxVit, StoresPositionsAsTwoSmallMatrices) {
  Classifier model(dtn_vit({}), 1);
  const OnnxFile file = written(onnx::graph_of(model, onnx::kMinOpset));
  EXPECT_EQ(file.ir_version, 8);
  EXPECT_EQ(file.opset, onnx::kMinOpset);
  EXPECT_EQ(file.inputs, std::vector<std::string>{"images"});
  EXPECT_EQ(file.outputs, std::vector<std::string>{"logits"});
  EXPECT_EQ(file.constants.at("blocks.0.norm1.positions_y").shape, (Extents{5, 4, 4}));
  EXPECT_EQ(file.constants.at("blocks.0.norm1.positions_x").shape, (Extents{5, 1, 4, 4}));
  EXPECT_FALSE(file.constants.contains("blocks.0.norm1.positions"));
}

TEST(OnnxVit, RejectsUnsupportedOpsets) {
  Classifier model(dtn_vit({}), 1);
  expect_error<ConfigError>([&] { onnx::graph_of(model, 16); }, {"--opset 16", "17 to 23"});
  expect_error<ConfigError>([&] { onnx::graph_of(model, 24); }, {"--opset 24"});
}

TEST(OnnxGraph, StoresMetadata) {
  onnx::Graph graph(17);
  graph.note("mean", "0.5");
  EXPECT_EQ(written(graph).notes.at("mean"), "0.5");
}

TEST(OnnxGraph, RejectsMoreThanTwoGibibytes) {
  onnx::Graph graph(17);
  // The graph refers to one tensor of 64 MiB under many names, so it needs no more memory.
  const Tensor part = Tensor::zeros({16, 1 << 20}, DType::kFloat32);
  for (int i = 0; i < 32; ++i) graph.tensor(cat("part", i), part);
  const TempFolder folder;
  const auto path = folder.path() / "large.onnx";
  expect_error<Error>([&] { graph.write(path, "large"); },
                      {path.string(), "2 GiB", "protocol buffer"});
  EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace dtn
