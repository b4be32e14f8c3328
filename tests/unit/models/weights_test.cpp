#include "dtn/models/weights.h"

#include <array>
#include <tuple>

#include "temp_folder.h"
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

Tensor& tensor_of(NamedTensors& tensors, const std::string& name) {
  for (auto& [key, value] : tensors) {
    if (key == name) return value;
  }
  throw Error(cat("no tensor ", name));
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

ModelConfig with_image_size(ModelConfig c, int image_size) {
  c.image_size = image_size;
  return c;
}

// The source table, on an n x n grid, of the expected values below.
double entry(std::int64_t y, std::int64_t x, std::int64_t c) {
  return static_cast<double>((7 * y + 3 * x + 5 * (c % 2)) % 11) / 8;
}

void fill_grid(float* rows, std::int64_t n, std::int64_t channels) {
  for (std::int64_t y = 0; y < n; ++y) {
    for (std::int64_t x = 0; x < n; ++x) {
      for (std::int64_t c = 0; c < channels; ++c) {
        rows[(y * n + x) * channels + c] = static_cast<float>(entry(y, x, c));
      }
    }
  }
}

// torch.nn.functional.interpolate(mode="bicubic", align_corners=False) of this table in float64;
// channels 0 and 1.
const std::vector<double> k3To5 = {
    -0.12,  0.637,    0.024996, 0.900004, 0.291,  1.048,  0.628284, 0.382216, 0.846672, -0.192672,
    0.3395, 0.322496, 0.53954,  0.5855,   0.7505, 0.842,  0.61991,  0.59063,  0.46828,  0.330716,
    0.839,  0.089,    1.0925,   0.2435,   1.25,   0.5,    0.665,    0.7565,   0.154,    0.911,
    0.596,  0.669284, 0.79604,  0.40937,  1.007,  0.158,  0.87641,  0.4145,   0.72478,  0.677504,
    0.291,  1.192672, 0.435996, 0.617784, 0.702,  -0.048, 1.039284, 0.099996, 1.257672, 0.363};
const std::vector<double> k4To3 = {0.18540873,  0.609230324, 0.583916558, 0.537828234, 1.00734582,
                                   0.44150471,  0.704983181, 0.490401657, 0.996826172, 0.284423828,
                                   0.301780418, 1.06533474,  0.993619021, 0.602511601, 0.422847041,
                                   1.01790817,  0.850593808, 0.434785987};

// The same with antialias=True.
const std::vector<double> k3To5Antialias = {
    -0.094339623, 0.634433962, 0.044054492,  0.843688398,  0.308962264, 1.037735849, 0.636598845,
    0.337897775,  0.823869705, -0.149341403, 0.300989158,  0.377499296, 0.468381043, 0.586753731,
    0.704291045,  0.847014925, 0.611459958,  0.530428548,  0.522704872, 0.290217544, 0.846698113,
    0.096698113,  1.05130597,  0.239738806,  1.25,         0.5,         0.617537313, 0.760261194,
    0.174528302,  0.903301887, 0.561250352,  0.709782456,  0.728642237, 0.469571452, 0.964552239,
    0.152985075,  0.871721152, 0.413246269,  0.782966066,  0.622500704, 0.308962264, 1.149341403,
    0.447356378,  0.662102225, 0.712264151,  -0.037735849, 1.039900732, 0.156311602, 1.227171591,
    0.365566038};
const std::vector<double> k4To3Antialias = {
    0.340015919, 0.601258581, 0.595343159, 0.577711761, 0.915429337, 0.489406003,
    0.750285836, 0.449084874, 0.895559163, 0.385690837, 0.395144944, 0.967984347,
    0.816038205, 0.641428714, 0.550087621, 0.839357459, 0.791847106, 0.529576135};

void expect_grid(const float* rows, const std::vector<double>& want, std::int64_t channels) {
  for (std::size_t i = 0; i < want.size() / 2; ++i) {
    for (std::int64_t c = 0; c < channels; ++c) {
      double expected = want[2 * i + static_cast<std::size_t>(c % 2)];
      EXPECT_NEAR(rows[static_cast<std::int64_t>(i) * channels + c], expected, 2e-7)
          << "token " << i << ", channel " << c;
    }
  }
}

TEST(Weights, RoundTripThroughFile) {
  const test::TempFolder folder;
  const auto file = folder.path() / "a.safetensors";
  Classifier a(test::paper_vit(), 1), b(test::paper_vit(), 2);
  b.parameters().enable_bfloat16();
  write_safetensors(file, named_values(a.parameters()));
  EXPECT_TRUE(load_weights(b, file).empty());
  EXPECT_TRUE(test::same_bits(a.parameters().values(), b.parameters().values()));
  EXPECT_TRUE(test::same_bits(b.parameters().bfloat16_values(),
                              test::as(a.parameters().values(), DType::kBFloat16)));
}

TEST(Weights, ConvertFromAnyFloatingType) {
  Classifier a(test::deit_vit(), 1), b(test::deit_vit(), 2);
  test::perturb(a.parameters());  // values exact in bfloat16
  NamedTensors tensors = copies(a);
  tensor_of(tensors, "head.weight") = test::as(tensor_of(tensors, "head.weight"), DType::kBFloat16);
  tensor_of(tensors, "pos_embed") = test::as(tensor_of(tensors, "pos_embed"), DType::kFloat64);
  load_exact(b.parameters(), tensors, "file");
  EXPECT_TRUE(test::same_bits(a.parameters().values(), b.parameters().values()));
  tensor_of(tensors, "head.bias") = Tensor::zeros({7}, DType::kInt64);
  expect_mentions(error_of([&] { load_exact(b.parameters(), tensors, "file"); }),
                  {"file", "head.bias", "int64"});
}

TEST(Weights, ErrorsNameMissingExtraAndMisshapenTensors) {
  Classifier model(test::paper_vit(), 1);
  auto load_both = [&](const NamedTensors& tensors, std::initializer_list<std::string> words) {
    expect_mentions(error_of([&] { load_exact(model.parameters(), tensors, "some.file"); }), words);
    expect_mentions(error_of([&] { load_adapted(model, tensors, "some.file"); }), words);
  };
  NamedTensors missing = copies(model);
  std::erase_if(missing, [](const auto& t) { return t.first == "blocks.1.mlp.fc1.bias"; });
  load_both(missing, {"some.file", "blocks.1.mlp.fc1.bias", "missing"});
  NamedTensors extra = copies(model);
  extra.emplace_back("blocks.9.norm1.weight", Tensor::zeros({20}, DType::kFloat32));
  load_both(extra, {"some.file", "blocks.9.norm1.weight"});
  NamedTensors misshapen = copies(model);
  tensor_of(misshapen, "norm.bias") = Tensor::zeros({21}, DType::kFloat32);
  load_both(misshapen, {"some.file", "norm.bias", "[21]", "[20]"});
  // Same number of elements, but another shape.
  NamedTensors transposed = copies(model);
  tensor_of(transposed, "blocks.0.mlp.fc1.weight") = Tensor::zeros({20, 40}, DType::kFloat32);
  load_both(transposed, {"blocks.0.mlp.fc1.weight"});
}

TEST(AdaptedWeights, InterpolatePositionsAndKeepClassTokenPosition) {
  Classifier source(with_image_size(test::deit_vit(), 15), 1);
  Classifier target(with_image_size(test::deit_vit(), 25), 2);
  NamedTensors tensors = copies(source);
  float* table = tensor_of(tensors, "pos_embed").data<float>();
  for (int c = 0; c < 20; ++c) table[c] = 100 + static_cast<float>(c);
  fill_grid(table + 20, 3, 20);
  auto notes = load_adapted(target, tensors, "small");
  ASSERT_EQ(notes.size(), 1u);
  expect_mentions(notes[0], {"pos_embed", "3 x 3", "5 x 5"});
  const float* got = target.parameters().find("pos_embed")->variable.value().data<float>();
  for (int c = 0; c < 20; ++c) EXPECT_EQ(got[c], 100 + static_cast<float>(c));
  expect_grid(got + 20, k3To5, 20);
  EXPECT_TRUE(test::same_bits(target.parameters().find("head.weight")->variable.value(),
                              source.parameters().find("head.weight")->variable.value()));
}

TEST(AdaptedWeights, InterpolateToFewerPositions) {
  Classifier source(with_image_size(test::paper_vit(), 20), 1);
  Classifier target(with_image_size(test::paper_vit(), 15), 2);
  NamedTensors tensors = copies(source);
  fill_grid(tensor_of(tensors, "pos_embed").data<float>(), 4, 20);
  ASSERT_EQ(load_adapted(target, tensors, "large").size(), 1u);
  expect_grid(target.parameters().find("pos_embed")->variable.value().data<float>(), k4To3, 20);
}

TEST(AdaptedWeights, InterpolateLikeTimm) {
  for (const auto& [from, to, want] :
       {std::tuple{15, 25, &k3To5Antialias}, std::tuple{20, 15, &k4To3Antialias}}) {
    ModelConfig c = with_image_size(test::paper_vit(), to);
    c.pos_resize = PosResize::kBicubicAntialias;
    Classifier source(with_image_size(test::paper_vit(), from), 1), target(c, 2);
    NamedTensors tensors = copies(source);
    fill_grid(tensor_of(tensors, "pos_embed").data<float>(), from / 5, 20);
    ASSERT_EQ(load_adapted(target, tensors, "file").size(), 1u);
    expect_grid(target.parameters().find("pos_embed")->variable.value().data<float>(), *want, 20);
  }
}

ModelConfig public_vit(const std::string& preset) {
  for (const ModelConfig& c : test::checkpoint_vits()) {
    if (c.preset == preset) return c;
  }
  throw Error(preset);
}

Tensor weight_of(Classifier& model, const std::string& name) {
  return model.parameters().find(name)->variable.value();
}

TEST(AdaptedWeights, RoundTripForEveryOption) {
  for (const ModelConfig& c : test::checkpoint_vits()) {
    Classifier a(c, 1), b(c, 2);
    test::perturb(a.parameters());
    EXPECT_TRUE(load_adapted(b, copies(a), "file").empty()) << c.preset;
    EXPECT_TRUE(test::same_bits(a.parameters().values(), b.parameters().values())) << c.preset;
  }
}

// All rows of the prefix stay, although 2 of its 3 rows and the grid could be a larger grid.
TEST(AdaptedWeights, KeepPrefixPositions) {
  const ModelConfig small = public_vit("all"), large = with_image_size(small, 20);
  Classifier source(small, 1), target(large, 2);
  const auto notes = load_adapted(target, copies(source), "file");
  ASSERT_EQ(notes.size(), 1u);
  expect_mentions(notes[0], {"pos_embed", "3 x 3", "5 x 5"});
  const Tensor from = weight_of(source, "pos_embed").reshape({12, 64});
  const Tensor to = weight_of(target, "pos_embed").reshape({28, 64});
  EXPECT_TRUE(test::same_bits(from.slice(0, 3), to.slice(0, 3)));
}

// A class token with a position equals another class token without one.
TEST(AdaptedWeights, AddClassTokenPositionToClassToken) {
  ModelConfig with = public_vit("deit3"), without = with;
  with.pos_embed = PosEmbed::kAll;
  Classifier source(with, 1), target(without, 2);
  test::perturb(source.parameters());
  const auto notes = load_adapted(target, copies(source), "file");
  ASSERT_EQ(notes.size(), 1u);
  expect_mentions(notes[0], {"cls_token", "position"});
  Context ctx;
  const Tensor images = test::some_images(with, 2, DType::kFloat32);
  const auto want = test::doubles(source.forward(ctx, images).value());
  const auto got = test::doubles(target.forward(ctx, images).value());
  EXPECT_LE(test::max_abs_difference(got, want), 1e-5 * test::max_abs(want));
  Classifier back(with, 3);
  expect_mentions(error_of([&] { load_adapted(back, copies(target), "file"); }), {"pos_embed"});
}

TEST(AdaptedWeights, SkipHeadIfOneSideHasNone) {
  ModelConfig features = public_vit("dinov2"), classes = features;
  classes.num_classes = 7;
  Classifier headless(features, 1), headed(classes, 2), fresh(classes, 2);
  auto notes = load_adapted(headed, copies(headless), "file");
  ASSERT_EQ(notes.size(), 2u);
  expect_mentions(notes[0] + notes[1], {"head.weight", "head.bias", "initialisation"});
  EXPECT_TRUE(test::same_bits(weight_of(headed, "head.weight"), weight_of(fresh, "head.weight")));
  EXPECT_TRUE(test::same_bits(weight_of(headed, "reg_token"), weight_of(headless, "reg_token")));
  notes = load_adapted(headless, copies(headed), "file");
  ASSERT_EQ(notes.size(), 2u);
  expect_mentions(notes[0] + notes[1], {"head.weight", "head.bias", "num_classes is 0"});
  // A file with half of a head is damaged.
  NamedTensors half = copies(fresh);
  std::erase_if(half, [](const auto& t) { return t.first == "head.bias"; });
  expect_mentions(error_of([&] { load_adapted(headed, half, "file"); }), {"head.bias", "missing"});
}

TEST(AdaptedWeights, InitializeFcNormIfFileNormalizesBeforePooling) {
  ModelConfig pretrained = public_vit("mae"), tuned = pretrained;
  pretrained.fc_norm = false;
  Classifier source(pretrained, 1), target(tuned, 2);
  test::perturb(source.parameters());
  const auto notes = load_adapted(target, copies(source), "file");
  ASSERT_EQ(notes.size(), 4u);
  std::string all;
  for (const std::string& note : notes) all += note;
  expect_mentions(all, {"fc_norm.weight", "fc_norm.bias", "norm.weight: not used", "norm.bias"});
  EXPECT_EQ(test::doubles(weight_of(target, "fc_norm.weight")), test::Doubles(64, 1.0));
}

TEST(AdaptedWeights, DistilledWeightsNeedDistilledModel) {
  ModelConfig distilled = public_vit("distilled"), plain = distilled;
  plain.distilled = false;
  Classifier source(distilled, 1), target(plain, 2);
  expect_mentions(error_of([&] { load_adapted(target, copies(source), "file"); }),
                  {"file", "model.distilled: true"});
  // Both heads may be missing.
  ModelConfig features = distilled;
  features.num_classes = 0;
  Classifier headless(features, 3);
  EXPECT_EQ(load_adapted(source, copies(headless), "file").size(), 4u);
}

// The model's tensors, with parts of their names replaced.
NamedTensors renamed(Classifier& model, const std::vector<std::array<std::string, 2>>& parts) {
  NamedTensors result = copies(model);
  for (auto& [name, tensor] : result) {
    for (const auto& [ours, theirs] : parts) {
      const std::size_t at = name.find(ours);
      if (at != std::string::npos) name.replace(at, ours.size(), theirs);
    }
  }
  return result;
}

void expect_loads(const ModelConfig& c, Classifier& source, const NamedTensors& tensors,
                  std::size_t notes) {
  Classifier target(c, 2);
  EXPECT_EQ(load_adapted(target, tensors, "file").size(), notes);
  EXPECT_TRUE(test::same_bits(source.parameters().values(), target.parameters().values()));
}

TEST(AdaptedWeights, MapNamesOfDeit3AndDinov2Releases) {
  const ModelConfig deit3 = public_vit("deit3"), dinov2 = public_vit("dinov2");
  Classifier a(deit3, 1), b(dinov2, 1);
  expect_loads(deit3, a, renamed(a, {{"ls1.gamma", "gamma_1"}, {"ls2.gamma", "gamma_2"}}), 0);
  NamedTensors tensors = renamed(b, {{"reg_token", "register_tokens"}});
  tensors.emplace_back("mask_token", Tensor::zeros({1, 64}, DType::kFloat32));
  expect_loads(dinov2, b, tensors, 1);
}

TEST(AdaptedWeights, MapNamesOfDinov2Giant) {
  const ModelConfig giant = public_vit("giant");
  Classifier source(giant, 1);
  expect_loads(giant, source, renamed(source, {{"mlp.fc1", "mlp.w12"}, {"mlp.fc2", "mlp.w3"}}), 0);
}

TEST(AdaptedWeights, RejectOtherPatchSizes) {
  ModelConfig c = test::deit_vit();
  Classifier source(c, 1);
  c.patch_size = 3;
  Classifier target(c, 1);
  expect_mentions(error_of([&] { load_adapted(target, copies(source), "file"); }),
                  {"file", "5 pixels wide", "model's are 3", "model.patch_size: 5"});
}

ModelConfig with_channels(int channels) {
  ModelConfig c = test::deit_vit();
  c.channels = channels;
  return c;
}

// Returns the logits of two images whose channels are equal.
test::Doubles logits_of_gray(Classifier& model) {
  const ModelConfig& c = model.config();
  const std::int64_t area = std::int64_t{c.image_size.height} * c.image_size.width;
  const Tensor gray = test::random_tensor({2, area}, 40);
  Tensor images =
      Tensor::empty({2, c.channels, c.image_size.height, c.image_size.width}, DType::kFloat32);
  const test::Doubles values = test::doubles(gray);
  for (std::int64_t i = 0; i < images.numel(); ++i) {
    const std::int64_t from = i / (area * c.channels) * area + i % area;
    images.data<float>()[i] = static_cast<float>(values[static_cast<std::size_t>(from)]);
  }
  Context ctx;
  return test::doubles(model.forward(ctx, {{"image", images}}).value());
}

// timm's adapt_input_conv(), by hand.
TEST(AdaptedWeights, ConvertImageChannels) {
  const ModelConfig rgb = with_channels(3);
  Classifier source(rgb, 1);
  NamedTensors tensors = copies(source);
  const Tensor from = tensor_of(tensors, "patch_embed.proj.weight");
  const std::int64_t filters = from.dim(0), area = from.dim(2) * from.dim(3);
  const float* in = from.data<float>();
  for (int channels : {1, 2, 4, 7}) {
    Classifier model(with_channels(channels), 2);
    const auto notes = load_adapted(model, tensors, "rgb.safetensors");
    ASSERT_EQ(notes.size(), 1u);
    expect_mentions(notes[0],
                    {"patch_embed.proj.weight", "3 image channels in rgb.safetensors",
                     cat(channels, " in the model"), channels == 1 ? "summed" : "repeated"});
    NamedTensors loaded = copies(model);
    const Tensor& to = tensor_of(loaded, "patch_embed.proj.weight");
    for (std::int64_t n = 0; n < filters; ++n) {
      for (std::int64_t i = 0; i < area; ++i) {
        const auto weight = [&](std::int64_t c) { return in[(3 * n + c) * area + i]; };
        for (std::int64_t c = 0; c < channels; ++c) {
          const float expected = channels == 1
                                     ? weight(0) + weight(1) + weight(2)
                                     : weight(c % 3) * (3.0f / static_cast<float>(channels));
          EXPECT_EQ(to.data<float>()[(channels * n + c) * area + i], expected);
        }
      }
    }
  }
}

// The sum of the weights sees a grey image as the weights of three channels saw three equal ones.
TEST(AdaptedWeights, GrayImagesGiveTheLogitsOfThreeEqualChannels) {
  for (const auto& [from, to] : {std::pair(3, 1), std::pair(1, 3)}) {
    Classifier source(with_channels(from), 1), model(with_channels(to), 2);
    load_adapted(model, copies(source), "weights");
    EXPECT_LT(test::max_abs_difference(logits_of_gray(source), logits_of_gray(model)), 2e-6);
  }
}

TEST(AdaptedWeights, OtherNumbersOfChannelsAreRejected) {
  Classifier source(with_channels(4), 1), model(with_channels(5), 1);
  expect_mentions(error_of([&] { load_adapted(model, copies(source), "w.safetensors"); }),
                  {"patch_embed.proj.weight", "w.safetensors"});
}

TEST(AdaptedWeights, MapNamesOfClipRelease) {
  const ModelConfig c = public_vit("clip");
  Classifier source(c, 1);
  test::perturb(source.parameters());
  Tensor bias = weight_of(source, "head.bias");
  bias.zero();
  NamedTensors tensors = renamed(source, {{"blocks.", "transformer.resblocks."},
                                          {"norm1.", "ln_1."},
                                          {"norm2.", "ln_2."},
                                          {"attn.qkv.", "attn.in_proj_"},
                                          {"attn.proj.", "attn.out_proj."},
                                          {"mlp.fc1.", "mlp.c_fc."},
                                          {"mlp.fc2.", "mlp.c_proj."},
                                          {"norm_pre.", "ln_pre."},
                                          {"patch_embed.proj.", "conv1."},
                                          {"cls_token", "class_embedding"},
                                          {"pos_embed", "positional_embedding"}});
  std::erase_if(tensors, [](const auto& t) { return t.first == "head.bias"; });
  for (auto& [name, tensor] : tensors) {
    if (name.starts_with("norm.")) name.replace(0, 4, "ln_post");
    if (name == "class_embedding") tensor = tensor.reshape({64});
    if (name == "positional_embedding") tensor = tensor.reshape({10, 64});
    if (name != "head.weight") continue;
    name = "proj";
    Tensor turned = Tensor::empty({64, 7}, DType::kFloat32);
    for (int k = 0; k < 7; ++k) {
      for (int i = 0; i < 64; ++i) {
        turned.data<float>()[i * 7 + k] = tensor.data<float>()[k * 64 + i];
      }
    }
    tensor = turned;
  }
  expect_loads(c, source, tensors, 0);
}

TEST(AdaptedWeights, IgnoreLegacyTimmTensors) {
  Classifier source(test::deit_vit(), 1), target(test::deit_vit(), 2);
  NamedTensors tensors = copies(source);
  tensors.emplace_back("pre_logits.fc.weight", Tensor::zeros({20, 20}, DType::kFloat32));
  EXPECT_TRUE(load_adapted(target, tensors, "file").empty());
  EXPECT_TRUE(test::same_bits(source.parameters().values(), target.parameters().values()));
}

TEST(AdaptedWeights, InitializeHeadOfAnotherSize) {
  ModelConfig other = test::paper_vit();
  other.num_classes = 11;
  Classifier source(test::paper_vit(), 1), target(other, 2), fresh(other, 2);
  auto notes = load_adapted(target, copies(source), "file");
  ASSERT_EQ(notes.size(), 2u);
  for (const std::string& note : notes) expect_mentions(note, {"head", "7", "11"});
  for (const char* name : {"head.weight", "head.bias"}) {
    EXPECT_TRUE(test::same_bits(target.parameters().find(name)->variable.value(),
                                fresh.parameters().find(name)->variable.value()));
  }
  EXPECT_TRUE(test::same_bits(target.parameters().find("norm.weight")->variable.value(),
                              source.parameters().find("norm.weight")->variable.value()));
  // A head for another width is an error, unlike another number of classes.
  NamedTensors narrow = copies(source);
  tensor_of(narrow, "head.weight") = Tensor::zeros({9, 10}, DType::kFloat32);
  expect_mentions(error_of([&] { load_adapted(target, narrow, "file"); }), {"head.weight"});
}

TEST(AdaptedWeights, SkipClassTokenForMeanPooling) {
  ModelConfig mean = test::deit_vit();
  mean.pool = Pooling::kMean;
  Classifier source(test::deit_vit(), 1), target(mean, 2);
  auto notes = load_adapted(target, copies(source), "file");
  ASSERT_EQ(notes.size(), 2u);
  std::string all = notes[0] + notes[1];
  expect_mentions(all, {"cls_token", "pos_embed"});
  // The patches' positions are taken unchanged, without the class token's row in front.
  Tensor from = source.parameters().find("pos_embed")->variable.value();
  Tensor to = target.parameters().find("pos_embed")->variable.value();
  EXPECT_TRUE(test::same_bits(from.reshape({10, 20}).slice(1, 10), to.reshape({9, 20})));
  // In the other direction the class token is missing.
  Classifier wants_token(test::paper_vit(), 3), without(test::mean_vit(), 3);
  expect_mentions(error_of([&] { load_adapted(wants_token, copies(without), "file"); }), {"file"});
}

TEST(AdaptedWeights, RejectPositionsThatFormNoGrid) {
  Classifier model(test::paper_vit(), 1);
  for (Shape shape : {Shape{1, 7, 20}, Shape{1, 9, 21}, Shape{9, 20}, Shape{1, 0, 20}}) {
    NamedTensors tensors = copies(model);
    tensor_of(tensors, "pos_embed") = Tensor::zeros(shape, DType::kFloat32);
    expect_mentions(error_of([&] { load_adapted(model, tensors, "file"); }), {"pos_embed"});
  }
}

TEST(NamedViews, ShareFlatBuffer) {
  Classifier model(test::paper_vit(), 1);
  Tensor moments = Tensor::zeros({model.parameters().flat_size()}, DType::kFloat32);
  for (auto& [name, view] : named_views(model.parameters(), moments, "exp_avg.")) {
    EXPECT_TRUE(name.starts_with("exp_avg."));
    const Parameter* p = model.parameters().find(name.substr(8));
    ASSERT_NE(p, nullptr);
    EXPECT_EQ(view.shape(), p->shape);
    EXPECT_EQ(view.raw(), moments.data<float>() + p->offset);
  }
}

}  // namespace
}  // namespace dtn
