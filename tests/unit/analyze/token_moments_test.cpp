// Maps of mean and deviation over the channels, and their correlations with images, against plain
// loops.
#include "apps/analyze/token_moments.h"

#include <cmath>

#include "analysis_cases.h"
#include "tiny_unet.h"

namespace dtn {
namespace {

using namespace dtn::test;
using Json = nlohmann::ordered_json;

TEST(ImageTones, WeighColoursAndUndoTheNormalization) {
  const Tensor image =
      Tensor::from(std::vector<float>{1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 2}, {1, 3, 2, 2});
  const std::vector<float> mean{0.5f, 0, 0}, std{2, 1, 1};
  const std::vector<double> grey = ImageTones(image, mean, std).brightness(0, {2, 2});
  const std::vector<double> expected{2.5 * 0.299, 0.5 * 0.299 + 0.587, 0.5 * 0.299 + 0.114,
                                     0.5 * 0.299 + 2 * 0.114};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(grey[i], expected[i], 1e-7);
  const Tensor two = Tensor::from(std::vector<float>{1, 3, 5, 7}, {1, 2, 1, 2});
  EXPECT_EQ(ImageTones(two, {}, {}).brightness(0, {1, 2}), (std::vector<double>{3, 5}));
}

TEST(ImageTones, GradientsRepeatTheEdges) {
  const Tensor image = Tensor::from(std::vector<float>{0, 1, 4, 0, 5, 4}, {1, 1, 2, 3});
  const std::vector<double> edges = ImageTones(image, {}, {}).edges(0, {2, 3});
  const std::vector<double> expected{0.5, std::hypot(2, 2), 1.5, 2.5, std::hypot(2, 2), 0.5};
  for (std::size_t i = 0; i < 6; ++i) EXPECT_NEAR(edges[i], expected[i], 1e-12) << i;
}

TEST(ImageTones, CellsCoverTheImage) {
  std::vector<float> pixels(5 * 4);
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<float>(i);
  const ImageTones tones(Tensor::from(pixels, {1, 1, 5, 4}), {}, {});
  // Rows 0 and 1 against 2, 3 and 4; columns 0 and 1 against 2 and 3.
  EXPECT_EQ(tones.brightness(0, {2, 2}), (std::vector<double>{2.5, 4.5, 12.5, 14.5}));
  EXPECT_EQ(tones.brightness(0, {1, 1}), (std::vector<double>{9.5}));
}

TEST(Correlation, IsUndefinedWithoutVariation) {
  const std::vector<double> up{1, 2, 3, 4}, down{8, 6, 4, 2}, flat{3, 3, 3, 3}, bent{1, 2, 2, 1};
  EXPECT_NEAR(correlation(up, up), 1, 1e-15);
  EXPECT_NEAR(correlation(up, down), -1, 1e-15);
  EXPECT_NEAR(correlation(up, bent), 0, 1e-15);
  EXPECT_TRUE(std::isnan(correlation(up, flat)));
}

// Grey values by the definition, for images of 2 channels in a file of tensors.
double grey_of(const std::vector<double>& images, std::int64_t image, std::int64_t plane,
               std::int64_t at) {
  return (images[static_cast<std::size_t>(2 * image * plane + at)] +
          images[static_cast<std::size_t>((2 * image + 1) * plane + at)]) /
         2;
}

double plain_correlation(const std::vector<double>& a, const std::vector<double>& b) {
  double n = 0, x = 0, y = 0, xx = 0, yy = 0, xy = 0;
  for (std::size_t i = 0; i < a.size(); ++i, ++n) {
    x += a[i], y += b[i], xx += a[i] * a[i], yy += b[i] * b[i], xy += a[i] * b[i];
  }
  return (n * xy - x * y) / std::sqrt((n * xx - x * x) * (n * yy - y * y));
}

class MomentAnalysis : public AnalysisFiles {
 protected:
  AnalysisSubject unet(const std::string& name, const ModelConfig& model) const {
    AnalysisSubject made = subject(name, model);
    made.config.task = "translate";
    return made;
  }

  // Writes the fields that a model reads, and targets.
  std::string pairs(const ModelConfig& model, std::int64_t count) const {
    NamedTensors tensors;
    for (const auto& [field, tensor] : unet_inputs(model, count, DType::kFloat32)) {
      tensors.emplace_back(field, tensor);
    }
    const Shape shape{count, model.out_channels.value_or(model.channels), model.image_size.height,
                      model.image_size.width};
    tensors.emplace_back("target", as(random_tensor(shape, 5), DType::kFloat32));
    const auto file = folder_.path() / "pairs.safetensors";
    write_safetensors(file, tensors);
    return file.string();
  }

  Json numbers(const AnalysisSubject& given, const std::string& file) const {
    AnalysisOptions options;
    options.subjects = {given};
    options.inputs = file;
    return analyze(options).json["checkpoints"][0];
  }
};

// The mean and deviation over the channels of a 3 x 3 convolution with zeros around the input
// [Ci, H, W], by the definition. weight [Co, Ci, 3, 3].
std::array<double, 2> convolved_moments(const Tensor& input, std::int64_t image,
                                        const Tensor& weight, std::int64_t y, std::int64_t x) {
  const std::int64_t in = input.dim(1), height = input.dim(2), width = input.dim(3);
  const std::int64_t out = weight.dim(0);
  std::vector<double> values;
  for (std::int64_t o = 0; o < out; ++o) {
    double sum = 0;
    for (std::int64_t c = 0; c < in; ++c) {
      for (std::int64_t k = 0; k < 9; ++k) {
        const std::int64_t row = y + k / 3 - 1, column = x + k % 3 - 1;
        if (row < 0 || row >= height || column < 0 || column >= width) continue;
        sum += static_cast<double>(
                   input.data<float>()[((image * in + c) * height + row) * width + column]) *
               static_cast<double>(weight.data<float>()[(o * in + c) * 9 + k]);
      }
    }
    values.push_back(sum);
  }
  double mean = 0, squares = 0;
  for (const double v : values) mean += v / static_cast<double>(out);
  for (const double v : values) squares += (v - mean) * (v - mean) / static_cast<double>(out);
  return {mean, std::sqrt(squares)};
}

TEST_F(MomentAnalysis, OfAnEncoderDecoderAreThoseOfItsConvolutions) {
  for (const FeatureShortcut shortcut : {FeatureShortcut::kConcat, FeatureShortcut::kMoments}) {
    const ModelConfig model = tiny_unet_with(shortcut);
    const std::int64_t images = 6, height = 4, width = 6;
    const Json json = numbers(unet("unet", model), pairs(model, images));
    EXPECT_EQ(json["moments"]["sites"],
              (Json{"enc.0.0", "enc.0.1", "enc.1.0", "dec.0.0", "dec.0.1"}));
    EXPECT_EQ(json["moments"]["mean"][2].size(), 4u);
    EXPECT_EQ(json["moments"]["mean"][2][0].size(), 2u);
    EXPECT_EQ(json["moments"]["std"][2][0][0].size(), 3u);
    Classifier filled(model, 1);
    fill_by_place(filled.parameters());
    const Tensor weight = filled.parameters().find("enc.0.0.conv.weight")->variable.value();
    const Tensor input = unet_inputs(model, images, DType::kFloat32).at("input");
    ASSERT_EQ(weight.shape(), (Shape{8, 2, 3, 3}));
    const std::vector<double> pixels = doubles(input);
    std::array<double, 2> correlations{};
    for (std::int64_t b = 0; b < images; ++b) {
      std::array<std::vector<double>, 2> maps;
      std::vector<double> grey;
      for (std::int64_t i = 0; i < height * width; ++i) {
        const auto expected = convolved_moments(input, b, weight, i / width, i % width);
        for (std::size_t k = 0; k < 2; ++k) {
          maps[k].push_back(expected[k]);
          if (b >= 4) continue;
          const char* key = k == 0 ? "mean" : "std";
          const Json& found = json["moments"][key][0][static_cast<std::size_t>(b)];
          EXPECT_NEAR(
              found[static_cast<std::size_t>(i / width)][static_cast<std::size_t>(i % width)]
                  .get<double>(),
              expected[k], 1e-5);
        }
        grey.push_back(grey_of(pixels, b, height * width, i));
      }
      for (std::size_t k = 0; k < 2; ++k) {
        correlations[k] += plain_correlation(maps[k], grey) / static_cast<double>(images);
      }
    }
    for (std::size_t k = 0; k < 2; ++k) {
      EXPECT_NEAR(json["moment_brightness"][0][k].get<double>(), correlations[k], 1e-5);
    }
  }
}

// Positional normalization at the end of a level takes the moments away behind the convolution, so
// they are shown as without it.
TEST_F(MomentAnalysis, StandAheadOfPositionalNormalization) {
  const ModelConfig with = tiny_unet_with(FeatureShortcut::kMoments),
                    without = tiny_unet_with(FeatureShortcut::kNone);
  const std::string file = pairs(with, 3);
  const Json a = numbers(unet("a", with), file), b = numbers(unet("b", without), file);
  EXPECT_EQ(a["moments"]["sites"][1], "enc.0.1");
  EXPECT_EQ(a["moments"]["mean"][1].dump(), b["moments"]["mean"][1].dump());
  EXPECT_EQ(a["moment_edges"][1].dump(), b["moment_edges"][1].dump());
  EXPECT_NE(a["moments"]["mean"][2].dump(), b["moments"]["mean"][2].dump());
}

TEST_F(MomentAnalysis, SupportsEveryEncoderDecoder) {
  int number = 0;
  for (const ModelConfig& model : tiny_unets()) {
    SCOPED_TRACE(title_of_unet(model));
    const Json json = numbers(unet(cat("unet", number++), model), pairs(model, 3));
    const std::size_t layers = json["depth"];
    EXPECT_EQ(json["moments"]["sites"].size(), layers);
    EXPECT_EQ(json["moment_brightness"].size(), layers);
    EXPECT_EQ(json["gradient_norm"].size(), layers);
    EXPECT_GT(json["loss"].get<double>(), 0);
    EXPECT_EQ(json["residual_rms"].size(), layers + 1);
    EXPECT_EQ(json.dump().find("nan"), std::string::npos);
  }
}

// Keeps what normalizers read.
struct NormInputs : Observer {
  void normalized(const Normalizer&, const Tensor& x, const Tensor&, const TokenGrid& g) override {
    inputs.push_back(x.clone());
    grids.push_back(g);
  }
  std::vector<Tensor> inputs;
  std::vector<TokenGrid> grids;
};

TEST_F(MomentAnalysis, OfATransformerStandAheadOfEachNormalizer) {
  const ModelConfig model = prefix_vit();
  const Json json = numbers(subject("vit", model), inputs(model, 2, 0));
  ASSERT_EQ(json["moments"]["sites"], (Json{"blocks.0.norm1", "blocks.0.norm2", "blocks.1.norm1",
                                            "blocks.1.norm2", "blocks.2.norm1", "blocks.2.norm2"}));
  Classifier filled(model, 1);
  fill_by_place(filled.parameters());
  Tensor images = Tensor::empty({2, 2, 15, 15}, DType::kFloat32);
  std::ranges::transform(script_values(7, images.numel()), images.data<float>(),
                         [](double v) { return static_cast<float>(v); });
  NormInputs seen;
  Context ctx;
  ctx.mode.skip_unread = false;
  ctx.observer = &seen;
  filled.forward(ctx, images);
  ASSERT_EQ(seen.inputs.size(), 6u);
  for (std::size_t s = 0; s < 6; ++s) {
    const Tensor& x = seen.inputs[s];
    ASSERT_EQ(x.dim(1), 9 + seen.grids[s].prefix);
    for (std::int64_t t = 0; t < 9; ++t) {
      const std::int64_t channels = x.dim(2), row = x.dim(1) + seen.grids[s].prefix + t;  // image 1
      double mean = 0;
      for (std::int64_t c = 0; c < channels; ++c) {
        mean += static_cast<double>(x.data<float>()[row * channels + c]);
      }
      mean /= static_cast<double>(channels);
      EXPECT_NEAR(json["moments"]["mean"][s][1][static_cast<std::size_t>(t / 3)]
                      [static_cast<std::size_t>(t % 3)]
                          .get<double>(),
                  mean, 1e-6);
    }
  }
}

TEST_F(MomentAnalysis, RefusesModelsWithOtherInputs) {
  const ModelConfig model = tiny_unet();
  AnalysisOptions options;
  options.subjects = {unet("unet", model), subject("vit", paper_vit())};
  options.inputs = pairs(model, 3);
  EXPECT_THROW(analyze(options), ConfigError);
  options.subjects = {unet("unet", model)};
  options.inputs = inputs(model, 3, 0);  // images, not pairs
  EXPECT_THROW(analyze(options), DataError);
}

}  // namespace
}  // namespace dtn
