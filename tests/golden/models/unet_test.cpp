// Compares small image-to-image models and their gradients with networks in PyTorch's float64, for
// every shortcut and with conditional normalizers. The expected values are in
// tests/golden/data/unet.txt, which make_unet_goldens.py writes.
#include "golden/models/image_cases.h"

namespace dtn {
namespace {

using test::Doubles;

constexpr std::uint32_t kFields = 4000;  // seed of the script

// An input of the model: real values from a seed, or whole numbers.
struct InputField {
  std::string name;
  Shape shape;
  std::uint32_t seed;
  std::vector<std::int64_t> whole;  // empty: from the seed

  Tensor in(DType dtype) const {
    if (!whole.empty()) return Tensor::from(whole, shape);
    return test::from_doubles(golden::values(seed, shape.numel(), 1, 0), shape, dtype);
  }
};

struct UNetCase {
  golden::Case network;  // with the output in training
  std::vector<InputField> fields;
  golden::TensorSummary evaluation;  // the output with the running statistics
  std::vector<golden::TensorSummary> gradients;
  std::uint32_t last_seed = kFields;

  Fields inputs(DType dtype) const {
    Fields all;
    for (const InputField& field : fields) all[field.name] = field.in(dtype);
    return all;
  }
};

void read_real_field(std::istream& words, UNetCase& to) {
  InputField field;
  words >> field.name;
  field.shape = golden::rest_as_shape(words);
  field.seed = ++to.last_seed;
  to.fields.push_back(std::move(field));
}

void read_whole_field(std::istream& words, UNetCase& to) {
  InputField field;
  words >> field.name;
  std::vector<std::int64_t> dims;
  for (std::string word; words >> word && word != ":";) dims.push_back(std::stoll(word));
  field.shape = Shape(dims);
  for (std::int64_t v; words >> v;) field.whole.push_back(v);
  to.fields.push_back(std::move(field));
}

void read_line(const std::string& line, const ConfigSchemas& schemas, UNetCase& to) {
  std::istringstream words(line);
  std::string word;
  words >> word;
  if (word == "case") {
    words >> to.network.name;
  } else if (word == "model") {
    const std::string text = "task: translate\nmodel: {" + line.substr(word.size()) + "}";
    to.network.model = parse_experiment(text, line, {}, schemas).model;
  } else if (word == "tensor") {
    golden::read_tensor(words, to.network);
  } else if (word == "field") {
    read_real_field(words, to);
  } else if (word == "index") {
    read_whole_field(words, to);
  } else if (word == "output") {
    golden::read_output(words, to.network);
  } else if (word == "evaluation") {
    to.evaluation = golden::read_summary(words);
  } else {
    to.gradients.push_back(golden::read_summary(words));
  }
}

std::vector<UNetCase> read_unet_cases() {
  const ConfigSchemas schemas = golden::schemas_of_task("translate");
  std::ifstream in(DTN_TESTS_FOLDER "/golden/data/unet.txt");
  EXPECT_TRUE(in.good());
  std::vector<UNetCase> cases;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("case ")) cases.emplace_back();
    read_line(line, schemas, cases.back());
  }
  return cases;
}

const std::vector<UNetCase>& unet_cases() {
  static const std::vector<UNetCase> all = read_unet_cases();
  EXPECT_EQ(all.size(), 41u);
  return all;
}

void load_case(Classifier& model, const UNetCase& c) {
  EXPECT_TRUE(load_adapted(model, c.network.weights, c.network.name).empty());
}

ImageModel& image_model_of(Classifier& model) {
  return dynamic_cast<ImageModel&>(model.backbone());
}

TEST(ImageToImageModels, MatchGoldenInTraining) {
  for (const UNetCase& c : unet_cases()) {
    for (const DType dtype : {DType::kFloat64, DType::kFloat32}) {
      SCOPED_TRACE(c.network.name + " in " + std::string(name_of(dtype)));
      Classifier model(c.network.model, 1, dtype);
      load_case(model, c);
      Tape tape;
      Context ctx = test::computing_in(dtype);
      ctx.tape = &tape;
      ctx.mode.training = true;
      const Variable y = image_model_of(model).image(ctx, c.inputs(dtype));
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

TEST(ImageToImageModels, MatchGoldenInEvaluation) {
  for (const UNetCase& c : unet_cases()) {
    for (const DType dtype : {DType::kFloat64, DType::kFloat32}) {
      SCOPED_TRACE(c.network.name + " in " + std::string(name_of(dtype)));
      Classifier model(c.network.model, 1, dtype);
      load_case(model, c);
      Context ctx = test::computing_in(dtype);
      const Variable y = image_model_of(model).image(ctx, c.inputs(dtype));
      golden::expect_summary(y.value(), c.evaluation, golden::rounding_of(dtype));
    }
  }
}

TEST(ImageToImageModels, ParameterNamesAreThoseOfTheScript) {
  for (const UNetCase& c : unet_cases()) {
    SCOPED_TRACE(c.network.name);
    Classifier model(c.network.model, 1);
    EXPECT_EQ(golden::described(named_values(model.parameters())),
              golden::described(c.network.weights));
  }
}

// The model reads exactly the fields of the script.
TEST(ImageToImageModels, ReadTheFieldsOfTheScript) {
  for (const UNetCase& c : unet_cases()) {
    SCOPED_TRACE(c.network.name);
    Classifier model(c.network.model, 1);
    std::vector<std::string> ours, theirs;
    for (const FieldSpec& field : model.backbone().inputs()) ours.push_back(field.name);
    for (const InputField& field : c.fields) theirs.push_back(field.name);
    std::ranges::sort(ours);
    std::ranges::sort(theirs);
    EXPECT_EQ(ours, theirs);
  }
}

}  // namespace
}  // namespace dtn
