// Position tables of files with other grids: values against a dense float64 resampling, and the
// sources of a file's grid size.
#include <cmath>
#include <functional>

#include "dtn/models/weights.h"
#include "temp_folder.h"
#include "texts.h"
#include "tiny_models.h"

namespace dtn {
namespace {

using test::Doubles;
using test::expect_contains;

constexpr double kTolerance = 1e-5;

NamedTensors copies(Classifier& model) {
  NamedTensors result;
  for (auto& [name, tensor] : named_values(model.parameters())) {
    result.emplace_back(name, tensor.clone());
  }
  return result;
}

Tensor weight_of(Classifier& model, const std::string& name) {
  return model.parameters().find(name)->variable.value();
}

template <class E>
std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const E& e) {
    return e.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

// A dense matrix of weights; [to, from].
struct Matrix {
  std::int64_t to, from;
  Doubles values;
  double at(std::int64_t i, std::int64_t j) const {
    return values[static_cast<std::size_t>(i * from + j)];
  }
};

double cubic(double x) {
  constexpr double a = -0.75;
  x = std::abs(x);
  if (x <= 1) return (a + 2) * x * x * x - (a + 3) * x * x + 1;
  return x < 2 ? a * x * x * x - 5 * a * x * x + 8 * a * x - 4 * a : 0;
}
double linear(double x) { return std::max(0.0, 1 - std::abs(x)); }

using Kernel = double (*)(double);

// torch.nn.functional.interpolate(align_corners=False) along one axis, with repeated border values.
Matrix side_matrix(std::int64_t from, std::int64_t to, Kernel kernel) {
  Matrix m{to, from, Doubles(static_cast<std::size_t>(to * from), 0.0)};
  for (std::int64_t i = 0; i < to; ++i) {
    const double centre =
        (static_cast<double>(i) + 0.5) * static_cast<double>(from) / static_cast<double>(to) - 0.5;
    for (std::int64_t k = -3; k < from + 3; ++k) {
      const std::int64_t inside = std::min(std::max<std::int64_t>(k, 0), from - 1);
      m.values[static_cast<std::size_t>(i * from + inside)] +=
          kernel(centre - static_cast<double>(k));
    }
  }
  return m;
}

// The Kronecker product, for tokens in raster order.
Matrix grid_matrix(ImageSize from, ImageSize to, Kernel kernel) {
  const Matrix y = side_matrix(from.height, to.height, kernel);
  const Matrix x = side_matrix(from.width, to.width, kernel);
  Matrix m{y.to * x.to, y.from * x.from, {}};
  for (std::int64_t i = 0; i < m.to; ++i) {
    for (std::int64_t j = 0; j < m.from; ++j) {
      m.values.push_back(y.at(i / x.to, j / x.from) * x.at(i % x.to, j % x.from));
    }
  }
  return m;
}

// m [to, from] times table [from, C]. The first `prefix` rows of the table are copied.
Doubles product(const Matrix& m, const Doubles& table, std::int64_t channels,
                std::int64_t prefix = 0) {
  Doubles out(table.begin(), table.begin() + prefix * channels);
  for (std::int64_t i = 0; i < m.to; ++i) {
    for (std::int64_t c = 0; c < channels; ++c) {
      double sum = 0;
      for (std::int64_t j = 0; j < m.from; ++j) {
        sum += m.at(i, j) * table[static_cast<std::size_t>((prefix + j) * channels + c)];
      }
      out.push_back(sum);
    }
  }
  return out;
}

void randomize(Classifier& model, const std::string& name) {
  Tensor value = weight_of(model, name);
  test::assign(value, test::random_tensor(value.shape(), stream_of(name)));
}

void expect_near(Classifier& model, const std::string& name, const Doubles& want) {
  const Doubles got = test::doubles(weight_of(model, name));
  ASSERT_EQ(got.size(), want.size()) << name;
  EXPECT_LE(test::max_abs_difference(got, want), kTolerance) << name;
}

ModelConfig sized(ModelConfig c, ImageSize size) {
  c.image_size = size;
  return c;
}

struct GridCase {
  ImageSize from, to;  // in tokens
  bool told;           // the image size of the file is known
};

void PrintTo(const GridCase& c, std::ostream* out) { *out << c.from << " to " << c.to; }

ImageSize pixels(ImageSize tokens, int patch) {
  return {tokens.height * patch, tokens.width * patch};
}

TEST(PositionGrids, ResamplesVitPositionsFromTrueGrid) {
  for (const GridCase& c : {GridCase{{2, 8}, {4, 16}, true},  // a square number, but no square
                            {{4, 4}, {2, 8}, true},           // same number of tokens
                            {{4, 4}, {2, 8}, false},          // unknown: taken for a square
                            {{2, 8}, {8, 2}, true},
                            {{3, 5}, {6, 10}, true},
                            {{4, 6}, {2, 3}, true}}) {
    SCOPED_TRACE(testing::PrintToString(c));
    for (const ModelConfig& model : {test::deit_vit(), test::mean_vit()}) {
      const std::int64_t prefix = model.pos_embed == PosEmbed::kAll ? 1 : 0;
      Classifier source(sized(model, pixels(c.from, 5)), 1),
          target(sized(model, pixels(c.to, 5)), 2);
      randomize(source, "pos_embed");
      GridKeys origin;
      if (c.told) origin.image_size = source.config().image_size;
      const auto notes = load_adapted(target, copies(source), "file", origin);
      ASSERT_EQ(notes.size(), 1u);
      expect_contains(notes[0], cat("pos_embed: interpolated from ", c.from, " to ", c.to));
      expect_near(target, "pos_embed",
                  product(grid_matrix(c.from, c.to, cubic),
                          test::doubles(weight_of(source, "pos_embed")), 20, prefix));
    }
  }
}

TEST(PositionGrids, ResamplesPvtPositionsPerStage) {
  for (const auto& [rule, kernel] :
       {std::pair<PosResize, Kernel>{PosResize::kBilinear, linear}, {PosResize::kBicubic, cubic}}) {
    ModelConfig c = test::tiny_pvt();
    c.pos_resize = rule;
    Classifier source(sized(c, {16, 64}), 1);  // 4 x 16 and 2 x 8 tokens
    Classifier target(sized(c, {32, 32}), 2);  // 8 x 8 and 4 x 4, the same numbers
    for (const char* name : {"pos_embed1", "pos_embed2"}) randomize(source, name);
    const auto notes =
        load_adapted(target, copies(source), "file", {.image_size = ImageSize{16, 64}});
    ASSERT_EQ(notes.size(), 2u);
    expect_contains(notes[0], "pos_embed1: interpolated from 4 x 16 to 8 x 8");
    expect_contains(notes[1], "pos_embed2: interpolated from 2 x 8 to 4 x 4");
    expect_near(target, "pos_embed1",
                product(grid_matrix({4, 16}, {8, 8}, kernel),
                        test::doubles(weight_of(source, "pos_embed1")), 8));
    expect_near(target, "pos_embed2",
                product(grid_matrix({2, 8}, {4, 4}, kernel),
                        test::doubles(weight_of(source, "pos_embed2")), 12, 1));
  }
}

TEST(PositionGrids, RecomputesT2tPositionsForNewGrid) {
  const ModelConfig c = test::tiny_t2t();  // 2 x 3
  for (const ImageSize size : {ImageSize{16, 96}, ImageSize{64, 48}}) {
    Classifier source(c, 1), target(sized(c, size), 2);
    randomize(source, "pos_embed");
    const auto notes = load_adapted(target, copies(source), "file", {.image_size = c.image_size});
    ASSERT_EQ(notes.size(), 1u) << size;
    expect_contains(notes[0],
                    cat("pos_embed: computed for ", size.height / 16, " x ", size.width / 16));
    Doubles want;
    for (int p = 0; p < 1 + size.height / 16 * size.width / 16; ++p) {
      for (int j = 0; j < 16; ++j) {
        const double angle = p / std::pow(10000.0, 2 * (j / 2) / 16.0);
        want.push_back(j % 2 == 0 ? std::sin(angle) : std::cos(angle));
      }
    }
    expect_near(target, "pos_embed", want);
  }
}

// Without a known size, a table equal to the formula's needs no change.
TEST(PositionGrids, AcceptsT2tPositionsThatMatchFormula) {
  Classifier source(test::tiny_t2t(), 1), target(test::tiny_t2t(), 2);
  EXPECT_TRUE(load_adapted(target, copies(source), "file").empty());
  randomize(source, "pos_embed");
  expect_contains(error_of<DataError>([&] { load_adapted(target, copies(source), "file"); }),
                  "model.init_image_size");
}

// Expected tables of timm 1.0.31's resize_rel_pos_bias_table for windows of w x w: rows 0, 1, w - 1
// and 2 w - 3 of head 0. The test also compares the sums of both heads. Entries of the source:
//     (y, x, h) = ((7 y + 3 x + 5 h) mod 11) / 8
const Doubles k4To7 = {
    0.000000, 0.000000, 0.125000, 0.291666, 0.500000, 0.750000, 1.125000, 0.125000, 0.375000,
    0.583334, 0.750001, 0.875000, 0.875000, 0.000000, 0.000000, 0.125000, 0.291666, 0.500000,
    0.750000, 1.125000, 0.125000, 0.375000, 0.583334, 0.750000, 0.875000, 0.875000, 1.250000,
    1.250000, 0.916668, 0.472223, 0.375000, 0.625000, 1.000000, 0.000000, 0.250000, 0.458334,
    0.625000, 0.750000, 0.750000, 1.125000, 1.125000, 0.791668, 0.347223, 0.250000, 0.500000,
    0.875000, 1.250000, 0.583333, 0.333334, 0.500001, 0.625000, 0.625000};
const Doubles k7To4 = {0.956933, 0.029534, 0.400821, 0.735245, 1.110245, 0.160321, 0.475376,
                       0.506115, 0.873762, 1.245049, 0.258664, 0.620049, 0.991336, 0.037772,
                       0.886066, 1.240098, 0.250000, 0.625000, 1.000000, 0.009902, 0.363934,
                       1.212228, 0.258664, 0.629951, 0.991336, 0.004951, 0.376238, 0.743885};

ModelConfig swin_of(int window) {
  ModelConfig c = test::tiny_swin();
  c.window = window;
  c.image_size = {8 * window, 16 * window};
  return c;
}

TEST(PositionGrids, InterpolatesSwinBiasesLikeTimm) {
  const std::string name = "layers.0.blocks.1.attn.relative_position_bias_table";
  for (const auto& [from, to, rows, sums] :
       {std::tuple{4, 7, k4To7, Doubles{107.141979, 104.108022}},
        {7, 4, k7To4, Doubles{30.625, 29.665842}}}) {
    Classifier source(swin_of(from), 1), target(swin_of(to), 2);
    float* entry = weight_of(source, name).data<float>();
    for (int y = 0; y < 2 * from - 1; ++y) {
      for (int x = 0; x < 2 * from - 1; ++x) {
        for (int h = 0; h < 2; ++h) *entry++ = static_cast<float>((7 * y + 3 * x + 5 * h) % 11) / 8;
      }
    }
    // The window size follows from the table alone.
    const auto notes = load_adapted(target, copies(source), "file");
    ASSERT_EQ(notes.size(), 1u);
    expect_contains(notes[0], cat("relative_position_bias_table and 3 more like it: interpolated "
                                  "from windows of ",
                                  from, " x ", from, " to ", to, " x ", to));
    const Doubles got = test::doubles(weight_of(target, name));
    const int side = 2 * to - 1;
    ASSERT_EQ(std::ssize(got), 2 * side * side);
    Doubles at, sum(2, 0.0);
    for (const int y : {0, 1, to - 1, side - 2}) {
      for (int x = 0; x < side; ++x)
        at.push_back(got[static_cast<std::size_t>(2 * (y * side + x))]);
    }
    for (std::size_t i = 0; i < got.size(); ++i) sum[i % 2] += got[i];
    EXPECT_LE(test::max_abs_difference(at, rows), kTolerance);
    EXPECT_LE(test::max_abs_difference(sum, sums), 1e-4);
  }
}

TEST(PositionGrids, ResamplesLevitBiasesByDistance) {
  const ModelConfig c = test::tiny_levit();
  Classifier source(c, 1), target(sized(c, {64, 96}), 2);  // 3 x 2 to 4 x 6; 2 x 1 to 2 x 3
  const std::string first = "blocks.0.m.attention_biases", shrink = "blocks.2.attention_biases",
                    last = "blocks.4.m.attention_biases";
  for (const std::string& name : {first, shrink, last}) randomize(source, name);
  const auto notes = load_adapted(target, copies(source), "file", {.image_size = c.image_size});
  ASSERT_EQ(notes.size(), 2u);
  expect_contains(notes[0], first + " and 1 more like it: interpolated from 3 x 2 to 4 x 6");
  expect_contains(notes[1], "interpolated from 2 x 1 to 2 x 3");
  for (const auto& [name, from, to] : {std::tuple{first, ImageSize{3, 2}, ImageSize{4, 6}},
                                       {shrink, {3, 2}, {4, 6}},
                                       {last, {2, 1}, {2, 3}}}) {
    const Matrix m = grid_matrix(from, to, cubic);
    const Doubles table = test::doubles(weight_of(source, name));
    Doubles want;
    for (std::size_t head = 0; head < table.size(); head += static_cast<std::size_t>(m.from)) {
      const auto begin = table.begin() + static_cast<std::ptrdiff_t>(head);
      const Doubles one = product(m, Doubles(begin, begin + m.from), 1);
      want.insert(want.end(), one.begin(), one.end());
    }
    expect_near(target, name, want);
  }
}

// P' = R P R^T for each head, where R resamples tokens.
Doubles pairs(const Matrix& r, const Doubles& table) {
  Doubles want;
  const std::int64_t n = r.from;
  for (std::int64_t head = 0; head < std::ssize(table) / (n * n); ++head) {
    const auto begin = table.begin() + head * n * n;
    const Doubles rows = product(r, Doubles(begin, begin + n * n), n);
    for (std::int64_t i = 0; i < r.to; ++i) {
      const Doubles one = product(r, Doubles(rows.begin() + i * n, rows.begin() + (i + 1) * n), 1);
      want.insert(want.end(), one.begin(), one.end());
    }
  }
  return want;
}

TEST(PositionGrids, ResamplesFreeDtnPositionsAlongBothAxes) {
  ModelConfig c = test::mean_vit();
  c.norm.options = {{"position", std::string("free")}};
  const std::string name = "blocks.1.norm2.position_table";
  for (const auto& [from, to] :
       {std::pair{ImageSize{2, 3}, ImageSize{4, 5}}, {ImageSize{2, 8}, ImageSize{4, 4}}}) {
    Classifier source(sized(c, pixels(from, 5)), 1), target(sized(c, pixels(to, 5)), 2);
    randomize(source, name);
    const auto notes =
        load_adapted(target, copies(source), "file", {.image_size = pixels(from, 5)});
    ASSERT_EQ(notes.size(), 2u);
    expect_contains(notes[1], cat("position_table and 5 more like it: interpolated from ", from));
    expect_near(target, name,
                pairs(grid_matrix(from, to, cubic), test::doubles(weight_of(source, name))));
  }
}

// With pooled statistics the table covers cells, by the pool size of the file.
TEST(PositionGrids, ResamplesFreeDtnPositionsOnPooledGrid) {
  ModelConfig c = test::mean_vit();
  const auto options = [](std::int64_t pool) -> std::vector<NormOption> {
    return {{"position", std::string("free")}, {"pool", pool}};
  };
  c.image_size = {20, 40};  // 4 x 8 tokens
  c.norm.options = options(2);
  Classifier source(c, 1);
  c.norm.options = options(1);
  Classifier target(c, 2);
  const std::string name = "blocks.0.norm1.position_table";
  randomize(source, name);
  load_adapted(target, copies(source), "file",
               {.image_size = c.image_size, .norm_pool = PerStage<int>(2)});
  expect_near(target, name,
              pairs(grid_matrix({2, 4}, {4, 8}, cubic), test::doubles(weight_of(source, name))));
}

TEST(PositionGrids, KeepsPositionsOfSameGrid) {
  for (const ModelConfig& c : test::tiny_models()) {
    Classifier source(c, 1), target(c, 2);
    test::perturb(source.parameters());
    EXPECT_TRUE(load_adapted(target, copies(source), "file", {.image_size = c.image_size}).empty());
    EXPECT_TRUE(test::same_bits(source.parameters().values(), target.parameters().values()))
        << c.preset;
  }
}

// The row before a known grid is the class token's, even if the total is a square number.
TEST(PositionGrids, SeparatesClassTokenRow) {
  Classifier source(sized(test::deit_vit(), {15, 25}), 1);  // 1 + 15 rows, a square number
  randomize(source, "pos_embed");
  randomize(source, "cls_token");
  const Doubles table = test::doubles(weight_of(source, "pos_embed"));
  const Doubles patches =
      product(grid_matrix({3, 5}, {6, 10}, cubic), Doubles(table.begin() + 20, table.end()), 20);
  ModelConfig c = sized(test::deit_vit(), {30, 50});
  c.pos_embed = PosEmbed::kPatch;
  Classifier joined(c, 2);
  const GridKeys origin{.image_size = ImageSize{15, 25}};
  auto notes = load_adapted(joined, copies(source), "file", origin);
  ASSERT_EQ(notes.size(), 2u);
  expect_contains(notes[0], "cls_token: its position in file is added to it");
  expect_near(joined, "pos_embed", patches);
  Doubles token = test::doubles(weight_of(source, "cls_token"));
  for (std::size_t i = 0; i < token.size(); ++i) token[i] += table[i];
  expect_near(joined, "cls_token", token);

  c.pool = Pooling::kMean;
  Classifier without(c, 2);
  notes = load_adapted(without, copies(source), "file", origin);
  ASSERT_EQ(notes.size(), 3u);
  expect_near(without, "pos_embed", patches);
}

class WeightFileGrid : public testing::Test {
 protected:
  // Saves a model of 3 x 5 patches, with or without a config that gives this size.
  void save(bool with_config, ImageSize init = {}) {
    StringMap metadata;
    if (with_config) {
      metadata["config"] = cat("model: {preset: vit_t, image_size: [15, 25], patch_size: 5",
                               init == ImageSize() ? "" : ", init_image_size: [25, 25]", "}");
    }
    write_safetensors(file_, named_values(source_.parameters()), metadata);
  }
  // Loads the file into a model of 6 x 10 patches.
  std::vector<std::string> load(std::optional<ImageSize> init) {
    ModelConfig c = sized(test::deit_vit(), {30, 50});
    c.init_image_size = init;
    Classifier target(c, 2);
    std::vector<std::string> notes = load_weights(target, file_);
    expect_near(target, "pos_embed",
                product(grid_matrix({3, 5}, {6, 10}, cubic),
                        test::doubles(weight_of(source_, "pos_embed")), 20, 1));
    return notes;
  }

  const test::TempFolder folder_;
  const std::filesystem::path file_ = folder_.path() / "model.safetensors";
  Classifier source_{sized(test::deit_vit(), {15, 25}), 1};
};

TEST_F(WeightFileGrid, ComesFromConfigInFile) {
  save(true);
  const auto notes = load({});
  ASSERT_EQ(notes.size(), 2u);
  expect_contains(notes[0], "pos_embed: interpolated from 3 x 5 to 6 x 10");
}

TEST_F(WeightFileGrid, ComesFromInitImageSize) {
  save(false);
  EXPECT_EQ(load(ImageSize{15, 25}).size(), 2u);
}

TEST_F(WeightFileGrid, ErrorAsksForInitImageSizeIfUnknown) {
  save(false);
  const std::string error = error_of<DataError>([&] { load({}); });
  expect_contains(error, file_.string());
  expect_contains(error, "pos_embed has 15 grid positions, which is not a square number");
  expect_contains(error, "set model.init_image_size: [H, W]");
}

// The same holds for a table whose size would fit without a change.
TEST_F(WeightFileGrid, IsNotAssumedToBeThatOfModel) {
  save(false);
  Classifier target(sized(test::deit_vit(), {25, 15}), 2);
  expect_contains(error_of<DataError>([&] { load_weights(target, file_); }), "init_image_size");
}

TEST_F(WeightFileGrid, ConfigInFileOverridesInitImageSize) {
  save(true);
  const auto notes = load(ImageSize{25, 15});
  ASSERT_EQ(notes.size(), 3u);
  expect_contains(notes[0], "model.init_image_size 25 x 15 is not used: the config in the file");
  // The key in the file belongs to the weights that its training started from.
  save(true, {25, 25});
  EXPECT_EQ(load(ImageSize{25, 25}).size(), 2u);
}

TEST_F(WeightFileGrid, RejectsMismatchWithImageSize) {
  save(false);
  std::string error = error_of<DataError>([&] { load(ImageSize{20, 25}); });
  expect_contains(error,
                  "15 grid positions, but model.init_image_size 20 x 25 gives a grid of 4 x 5");
  expect_contains(error_of<ConfigError>([&] {
                    load(ImageSize{15, 26});
                  }),
                  "no model can be built with model.init_image_size 15 x 26");
  // The config in the file contradicts its tensors; model.init_image_size overrides it.
  write_safetensors(file_, named_values(source_.parameters()),
                    {{"config", "model: {preset: vit_t, image_size: 25, patch_size: 5}"}});
  error = error_of<DataError>([&] { load({}); });
  expect_contains(error, "the config in the file (model.image_size 25 x 25) gives a grid of 5 x 5");
  expect_contains(error, "set model.init_image_size");
  EXPECT_EQ(load(ImageSize{15, 25}).size(), 2u);
}

}  // namespace
}  // namespace dtn
