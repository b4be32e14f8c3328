// Compares small diffusion transformers and their gradients with networks in PyTorch's float64. The
// expected values are in tests/golden/data/dit.txt, which make_dit_goldens.py writes.
#include "golden/models/image_cases.h"

namespace dtn {
namespace {

using test::Doubles;

struct DitCase {
  golden::Case network;
  std::vector<golden::TensorSummary> gradients;
};

std::vector<DitCase> read_dit_cases() {
  const ConfigSchemas schemas = golden::schemas_of_task("diffusion");
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
      golden::read_output(words, cases.back().network);
    } else {
      cases.back().gradients.push_back(golden::read_summary(words));
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
      EXPECT_LE(difference, golden::rounding_of(dtype) * test::max_abs(c.network.output));
      const Doubles seed = golden::values(golden::kWeights, y.value().numel(), 1, 0);
      tape.backward(y, test::from_doubles(seed, y.shape(), dtype));
      golden::expect_gradients(c.gradients, model.parameters(), 2 * golden::rounding_of(dtype));
    }
  }
}

TEST(DiffusionTransformers, ParameterNamesAreThoseOfTheScript) {
  for (const DitCase& c : dit_cases()) {
    SCOPED_TRACE(c.network.name);
    Classifier model(c.network.model, 1);
    std::vector<std::string> theirs = golden::described(c.network.weights);
    theirs.push_back("pos_embed [1, 6, 16]");
    std::ranges::sort(theirs);
    EXPECT_EQ(golden::described(named_values(model.parameters())), theirs);
  }
}

}  // namespace
}  // namespace dtn
