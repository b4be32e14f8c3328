// A trained LayerNorm model becomes a DTN model: near lambda 1 its loss and decisions are the same.
#include "dtn/models/weights.h"
#include "small_run.h"

namespace dtn {
namespace {

using namespace dtn::test;

ExperimentConfig experiment() {
  ExperimentConfig c;
  c.model = deit_vit();
  c.model.image_size = 20;
  c.model.embed_dim = 40;
  c.optim.lr = 3e-3;
  c.train.batch_size = 48;
  c.seed = 5;
  return c;
}

// One pattern per class, plus noise: it is learned well, but not without errors.
Fields images_of(const ModelConfig& m, std::int64_t n, std::uint32_t stream) {
  const Doubles patterns = doubles(random_tensor(
      {m.num_classes, m.channels, m.image_size.height, m.image_size.width}, 50, 0.45));
  Doubles pixels =
      doubles(random_tensor({n, m.channels, m.image_size.height, m.image_size.width}, stream, 1.7));
  Tensor labels = Tensor::empty({n}, DType::kInt64);
  const std::size_t size = pixels.size() / static_cast<std::size_t>(n);
  for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
    const std::size_t label = (i + stream) % static_cast<std::size_t>(m.num_classes);
    labels.data<std::int64_t>()[i] = static_cast<std::int64_t>(label);
    for (std::size_t k = 0; k < size; ++k) pixels[i * size + k] += patterns[label * size + k];
  }
  const Shape shape{n, m.channels, m.image_size.height, m.image_size.width};
  return {{"image", from_doubles(pixels, shape, DType::kFloat32)}, {"label", labels}};
}

struct Judgement {
  double loss = 0, right = 0;
  std::vector<std::int64_t> decisions;
};

Judgement judge(Classifier& model, const Fields& batch) {
  Judgement all;
  const Tensor logits = predict(model, batch.at("image"));
  const std::int64_t n = logits.dim(0), classes = logits.dim(1);
  for (std::int64_t i = 0; i < n; ++i) {
    const float* row = logits.data<float>() + i * classes;
    const std::int64_t label = batch.at("label").data<std::int64_t>()[i];
    double sum = 0;
    for (std::int64_t k = 0; k < classes; ++k) sum += std::exp(row[k] - row[label]);
    all.loss += std::log(sum) / static_cast<double>(n);
    all.decisions.push_back(std::max_element(row, row + classes) - row);
    all.right += (all.decisions.back() == label) / static_cast<double>(n);
  }
  return all;
}

double changed(const Judgement& a, const Judgement& b) {
  double count = 0;
  for (std::size_t i = 0; i < a.decisions.size(); ++i) count += a.decisions[i] != b.decisions[i];
  return count / static_cast<double>(a.decisions.size());
}

TEST(LayerNormToDtn, KeepsAccuracyNearLambdaOne) {
  const Threads threads(2);
  const ExperimentConfig config = experiment();
  ClassifyLearner learner(config);
  for (int i = 0; i < 400; ++i) {
    take_step(learner, images_of(config.model, config.train.batch_size, 1000 + i), i, 3e-3);
  }
  const Fields test = images_of(config.model, 2000, 7);
  const Judgement was = judge(learner.model(), test);
  EXPECT_GT(was.right, 0.7) << "it has learnt";
  EXPECT_LT(was.right, 0.99) << "and decides close calls";
  NamedTensors file;
  for (auto& [name, tensor] : named_values(learner.parameters())) {
    file.emplace_back(name, tensor.clone());
  }
  const auto with_lambda = [&](double lambda) {
    ModelConfig dtn = config.model;
    dtn.norm.type = "dtn";
    dtn.norm.options = {{"prefix", std::string("ln")}, {"init_lambda", lambda}};
    Classifier model(dtn, 1);
    EXPECT_EQ(load_adapted(model, file, "file").size(), 1u);
    return judge(model, test);
  };
  const Judgement nearest = with_lambda(0.999), near = with_lambda(0.99), half = with_lambda(0.5);
  EXPECT_NEAR(nearest.loss, was.loss, 1e-3);
  EXPECT_NE(nearest.loss, was.loss);
  EXPECT_NEAR(near.loss, was.loss, 0.03);
  EXPECT_LE(changed(near, was), 0.01);
  EXPECT_GT(changed(half, was), 0.1) << "what a start of DTN's own does to it";
  RecordProperty("top1", std::to_string(was.right));
  RecordProperty("loss", std::to_string(was.loss));
}

}  // namespace
}  // namespace dtn
