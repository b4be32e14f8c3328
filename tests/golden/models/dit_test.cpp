// Compares small diffusion transformers and their gradients with networks in PyTorch's float64. The
// expected values are in tests/golden/data/dit.txt, which make_dit_goldens.py writes.
#include <algorithm>

#include "dtn/nn/normalizer.h"
#include "golden/models/network_cases.h"
#include "unit/config/fake_norms.h"

namespace dtn {
namespace {

using test::Doubles;

// Seeds of the script.
constexpr std::uint32_t kWeights = 2000, kProjection = 3000;

struct Gradient {
  std::string name;
  double largest, projection;
  Doubles some;  // values at even distances
};

struct DitCase {
  golden::Case network;
  std::vector<Gradient> gradients;
};

void read_gradient(std::istream& words, DitCase& to) {
  Gradient g{};
  words >> g.name >> g.largest >> g.projection;
  for (double v; words >> v;) g.some.push_back(v);
  to.gradients.push_back(std::move(g));
}

void read_output(std::istream& words, golden::Case& to) {
  std::vector<std::int64_t> dims;
  for (std::string word; words >> word && word != ":";) dims.push_back(std::stoll(word));
  to.shape = Shape(dims);
  for (double v; words >> v;) to.output.push_back(v);
}

std::vector<DitCase> read_dit_cases() {
  ConfigSchemas schemas = testing::fake_schemas();
  schemas.norms = norm_registry().schemas();
  schemas.models = model_registry().schemas();
  schemas.tasks.front().name = "diffusion";
  std::ifstream in(DTN_TESTS_FOLDER "/golden/data/dit.txt");
  EXPECT_TRUE(in.good());
  std::vector<DitCase> cases;
  for (std::string line, word; std::getline(in, line);) {
    std::istringstream words(line);
    words >> word;
    if (word == "case") {
      words >> cases.emplace_back().network.name;
    } else if (word == "model") {
      const std::string text = "task: diffusion\nmodel: {" + line.substr(word.size()) + "}";
      cases.back().network.model = parse_experiment(text, line, {}, schemas).model;
    } else if (word == "tensor") {
      golden::read_tensor(words, cases.back().network);
    } else if (word == "output") {
      read_output(words, cases.back().network);
    } else {
      read_gradient(words, cases.back());
    }
  }
  return cases;
}

const std::vector<DitCase>& dit_cases() {
  static const std::vector<DitCase> all = read_dit_cases();
  EXPECT_EQ(all.size(), 10u);
  return all;
}

// The inputs of the script.
Fields inputs_of(const ModelConfig& c, DType dtype) {
  const Shape shape{3, c.channels, c.image_size.height, c.image_size.width};
  const std::vector<std::int64_t> timesteps{0, 999, 437}, labels{0, 5, 3};
  return {{"image",
           test::from_doubles(golden::values(golden::kImages, shape.numel(), 1, 0), shape, dtype)},
          {"timestep", Tensor::from(timesteps, {3})},
          {"label", Tensor::from(labels, {3})}};
}

// The positions come from the formula of the model, as the file has none.
void load_case(Classifier& model, const DitCase& c) {
  EXPECT_TRUE(load_adapted(model, c.network.weights, c.network.name).empty());
}

double rounding(DType dtype) {
  // The file has 9 digits. Sums have up to 64 products; about fifty sums follow one another.
  return dtype == DType::kFloat64 ? 1e-8
                                  : 50 * test::unit_roundoff(DType::kFloat32) * std::sqrt(64.0);
}

void expect_gradients(const DitCase& c, ParameterStore& store, double tolerance) {
  for (const Gradient& want : c.gradients) {
    SCOPED_TRACE(want.name);
    const Parameter* p = store.find(want.name);
    ASSERT_NE(p, nullptr);
    const Doubles got = test::doubles(ParameterStore::view(store.gradients(), *p));
    const auto count = static_cast<std::int64_t>(got.size());
    const double bound = tolerance * want.largest + 1e-12;
    EXPECT_NEAR(test::max_abs(got), want.largest, bound);
    const Doubles factors = golden::values(kProjection, count, 1, 0);
    double projection = 0;
    for (std::size_t i = 0; i < got.size(); ++i) projection += got[i] * factors[i];
    EXPECT_NEAR(projection, want.projection, bound * std::sqrt(static_cast<double>(count)));
    const auto some = static_cast<std::int64_t>(want.some.size());
    ASSERT_EQ(some, 3);
    for (std::int64_t k = 0; k < some; ++k) {
      const auto at = static_cast<std::size_t>(k * count / some);
      EXPECT_NEAR(got[at], want.some[static_cast<std::size_t>(k)], bound) << at;
    }
  }
}

TEST(DiffusionTransformers, MatchGolden) {
  for (const DitCase& c : dit_cases()) {
    for (const DType dtype : {DType::kFloat64, DType::kFloat32}) {
      SCOPED_TRACE(c.network.name + " in " + std::string(name_of(dtype)));
      Classifier model(c.network.model, 1, dtype);
      load_case(model, c);
      auto& images = dynamic_cast<ImageModel&>(model.backbone());
      Tape tape;
      Context ctx = test::computing_in(dtype);
      ctx.tape = &tape;
      const Variable y = images.image(ctx, inputs_of(c.network.model, dtype));
      ASSERT_EQ(y.shape(), c.network.shape);
      const double difference =
          test::max_abs_difference(test::doubles(y.value()), c.network.output);
      EXPECT_LE(difference, rounding(dtype) * test::max_abs(c.network.output));
      const Doubles seed = golden::values(kWeights, y.value().numel(), 1, 0);
      tape.backward(y, test::from_doubles(seed, y.shape(), dtype));
      expect_gradients(c, model.parameters(), 2 * rounding(dtype));
    }
  }
}

TEST(DiffusionTransformers, ParameterNamesAreThoseOfTheScript) {
  for (const DitCase& c : dit_cases()) {
    SCOPED_TRACE(c.network.name);
    Classifier model(c.network.model, 1);
    std::vector<std::string> ours, theirs{"pos_embed [1, 6, 16]"};
    for (const auto& [name, tensor] : named_values(model.parameters())) {
      ours.push_back(name + " " + to_string(tensor.shape()));
    }
    for (const auto& [name, tensor] : c.network.weights) {
      theirs.push_back(name + " " + to_string(tensor.shape()));
    }
    std::ranges::sort(ours);
    std::ranges::sort(theirs);
    EXPECT_EQ(ours, theirs);
  }
}

}  // namespace
}  // namespace dtn
