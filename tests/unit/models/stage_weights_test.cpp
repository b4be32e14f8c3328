// Weights of models with several stages: timm's layout, and other resolutions.
#include <array>
#include <functional>

#include "dtn/models/weights.h"
#include "tiny_stages.h"

namespace dtn {
namespace {

NamedTensors copies(Classifier& model) {
  NamedTensors result;
  for (auto& [name, tensor] : named_values(model.parameters())) {
    result.emplace_back(name, tensor.clone());
  }
  return result;
}

std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const DataError& e) {
    return e.what();
  }
  return "";
}

void expect_mentions(const std::string& text, std::initializer_list<std::string> words) {
  for (const std::string& word : words) {
    EXPECT_NE(text.find(word), std::string::npos) << "'" << word << "' is not in: " << text;
  }
}

Tensor weight_of(Classifier& model, const std::string& name) {
  return model.parameters().find(name)->variable.value();
}

// The beginning of names here and in timm, or a part inside of names.
struct Renaming {
  std::string ours, theirs;
};

NamedTensors renamed(Classifier& model, const std::vector<Renaming>& beginnings,
                     const Renaming& inside = {}) {
  NamedTensors result = copies(model);
  for (auto& [name, tensor] : result) {
    for (const Renaming& r : beginnings) {
      if (!name.starts_with(r.ours)) continue;
      name.replace(0, r.ours.size(), r.theirs);
      break;
    }
    const std::size_t at = name.find(inside.ours);
    if (!inside.ours.empty() && at != std::string::npos) {
      name.replace(at, inside.ours.size(), inside.theirs);
    }
  }
  return result;
}

void expect_same(Classifier& a, Classifier& b) {
  EXPECT_TRUE(test::same_bits(a.parameters().values(), b.parameters().values()));
}

TEST(StageWeights, RoundTripWithoutNotes) {
  for (const ModelConfig& c : test::staged_models()) {
    Classifier a(c, 1), b(c, 2);
    test::perturb(a.parameters());
    EXPECT_TRUE(load_adapted(b, copies(a), "file", {.image_size = c.image_size}).empty())
        << c.preset;
    expect_same(a, b);
  }
}

TEST(StageWeights, LoadPvtV2InTimmLayout) {
  const ModelConfig c = test::tiny_pvt_v2("dtn");
  Classifier a(c, 1), b(c, 2);
  test::perturb(a.parameters());
  const NamedTensors theirs = renamed(a,
                                      {{"patch_embed1.", "patch_embed."},
                                       {"patch_embed2.", "stages.1.downsample."},
                                       {"block1.", "stages.0.blocks."},
                                       {"block2.", "stages.1.blocks."},
                                       {"norm1.", "stages.0.norm."},
                                       {"norm2.", "stages.1.norm."}},
                                      {"mlp.dwconv.dwconv", "mlp.dwconv"});
  EXPECT_TRUE(load_adapted(b, theirs, "file").empty());
  expect_same(a, b);
}

TEST(StageWeights, LoadSwinInNewTimmLayout) {
  const ModelConfig c = test::tiny_swin();
  Classifier a(c, 1), b(c, 2);
  test::perturb(a.parameters());
  EXPECT_TRUE(
      load_adapted(
          b, renamed(a, {{"layers.0.downsample.", "layers.1.downsample."}, {"head.", "head.fc."}}),
          "file")
          .empty());
  expect_same(a, b);
}

// The release also saves computed tensors.
TEST(StageWeights, IgnoreBuffersOfSwinRelease) {
  const ModelConfig c = test::tiny_swin();
  Classifier a(c, 1), b(c, 2);
  test::perturb(a.parameters());
  NamedTensors release = copies(a);
  release.emplace_back("layers.0.blocks.0.attn.relative_position_index",
                       Tensor::zeros({9, 9}, DType::kInt64));
  release.emplace_back("layers.0.blocks.1.attn_mask", Tensor::zeros({8, 9, 9}, DType::kFloat32));
  EXPECT_TRUE(load_adapted(b, release, "file").empty());
  expect_same(a, b);
  release.emplace_back("layers.0.blocks.1.attn.mask", Tensor::zeros({8, 9, 9}, DType::kFloat32));
  expect_mentions(error_of([&] { load_adapted(b, release, "file"); }), {"attn.mask", "no place"});
}

// torch.nn.functional.interpolate(mode="bilinear", align_corners=False) of 10 y + x from a 3 x 3
// grid to 6 x 2.
TEST(StageWeights, ResizePvtPositionsPerStage) {
  ModelConfig c = test::tiny_pvt();
  c.image_size = 24;  // 6 x 6 and 3 x 3
  Classifier source(c, 1);
  c.image_size = {48, 16};  // 12 x 4 and 6 x 2
  Classifier target(c, 2);
  Tensor table = weight_of(source, "pos_embed2");
  for (std::int64_t row = 0; row < 10; ++row) {
    for (std::int64_t channel = 0; channel < 12; ++channel) {
      const std::int64_t y = (row - 1) / 3, x = (row - 1) % 3;
      table.data<float>()[12 * row + channel] =
          row == 0 ? 100 : static_cast<float>(10 * y + x + 1000 * (channel % 2));
    }
  }
  const auto notes = load_adapted(target, copies(source), "file");
  ASSERT_EQ(notes.size(), 2u);
  expect_mentions(notes[0], {"pos_embed1", "6 x 6 to 12 x 4"});
  expect_mentions(notes[1], {"pos_embed2", "3 x 3 to 6 x 2"});
  const Tensor resized = weight_of(target, "pos_embed2");
  ASSERT_EQ(resized.shape(), Shape({1, 13, 12}));
  EXPECT_EQ(test::element(resized, 0), 100);
  const std::array<double, 6> rows = {0, 2.5, 7.5, 12.5, 17.5, 20};
  const std::array<double, 2> columns = {0.25, 1.75};
  for (std::int64_t i = 0; i < 12; ++i) {
    const double want =
        rows[static_cast<std::size_t>(i / 2)] + columns[static_cast<std::size_t>(i % 2)];
    EXPECT_NEAR(test::element(resized, 12 * (i + 1)), want, 1e-5) << i;
    EXPECT_NEAR(test::element(resized, 12 * (i + 1) + 1), want + 1000, 1e-3) << i;
  }
}

TEST(StageWeights, TransferLayerNormsToDtn) {
  for (const auto& [plain, dynamic] : {std::pair{test::tiny_pvt(), test::tiny_pvt("dtn")},
                                       {test::tiny_swin(), test::tiny_swin("dtn")}}) {
    Classifier source(plain, 1), target(dynamic, 2);
    test::perturb(source.parameters());
    const auto notes =
        load_adapted(target, copies(source), "file", {.image_size = plain.image_size});
    ASSERT_EQ(notes.size(), 1u);
    expect_mentions(notes[0], {plain.family == "pvt" ? "4 norms" : "8 norms", "pos_proj"});
  }
}

}  // namespace
}  // namespace dtn
