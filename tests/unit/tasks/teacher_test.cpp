// The teacher of a student: its sources, its input images, and its outputs in the loss.
#include "tasks/teacher.h"

#include "dtn/config/load.h"
#include "dtn/models/weights.h"
#include "dtn/ops/loss.h"
#include "dtn/tasks/classify.h"
#include "dtn/tasks/registries.h"
#include "temp_folder.h"
#include "tensors.h"

namespace dtn::test {
namespace {

ExperimentConfig small(const std::vector<std::string>& set = {}) {
  return parse_experiment(
      "model: {preset: deit_tiny, image_size: 8, patch_size: 4, embed_dim: 12, depth: 2,"
      " num_heads: 2, mlp_ratio: 2, num_classes: 5}\n"
      "data: {dataset: synthetic, mean: 0.5, std: 0.25}\n",
      "test", set, standard_registries().schemas());
}

const ClassList kUnnamed{"the student", {}, 5};

// Weights of a model in a folder like a checkpoint's; removed with the test.
class TeacherFolder {
 public:
  explicit TeacherFolder(const ExperimentConfig& config, std::uint64_t seed = 1) : config_(config) {
    Classifier model(config.model, seed);
    for (Parameter& p : model.parameters().parameters()) {  // so that classes differ
      assign(p.variable.value(), random_tensor(p.shape, stream_of(p.name), 0.5));
    }
    write_safetensors(file(), named_values(model.parameters()), {{"config", to_yaml(config)}});
  }

  std::filesystem::path file() const { return folder_.path() / "model.safetensors"; }
  std::string setting() const { return "distill.teacher=" + folder_.string(); }
  Tensor predictions(const Tensor& images) const {
    Classifier model(config_.model, 0);
    load_weights(model, file());
    return predict(model, images);
  }

 private:
  ExperimentConfig config_;
  TempFolder folder_;
};

Tensor some_images(const ExperimentConfig& c, std::int64_t n = 4) {
  const std::int64_t side = c.model.image_size.height;
  return as(random_tensor({n, c.model.channels, side, side}, 9), DType::kFloat32);
}

TEST(Teacher, MatchesItsModel) {
  const TeacherFolder folder(small());
  const ExperimentConfig student = small({folder.setting()});
  Teacher teacher({student, kCpu, standard_registries()}, DType::kFloat32, kUnnamed);
  const Tensor images = some_images(student);
  EXPECT_TRUE(same_bits(teacher.logits({{"image", images}}), folder.predictions(images)));
  EXPECT_EQ(teacher.fingerprint(), fingerprint_of(read_safetensors(folder.file()).tensors));
  EXPECT_NE(teacher.description().find("deit_tiny of "), std::string::npos);
}

// Images normalized with the student's mean and std are converted to the teacher's.
TEST(Teacher, RenormalizesImagesToItsMean) {
  const TeacherFolder folder(small({"data.mean=[0.1, 0.2, 0.3]", "data.std=[0.5, 0.6, 0.7]"}));
  const ExperimentConfig student = small({folder.setting()});
  Teacher teacher({student, kCpu, standard_registries()}, DType::kFloat32, kUnnamed);
  const Tensor images = some_images(student);
  Tensor seen = images.clone();
  const double mean[] = {0.1, 0.2, 0.3}, std[] = {0.5, 0.6, 0.7};
  const std::int64_t plane = images.dim(2) * images.dim(3);
  for (std::int64_t i = 0; i < seen.numel(); ++i) {
    const auto c = static_cast<std::size_t>(i / plane % 3);
    float& x = seen.data<float>()[i];
    x = static_cast<float>((x * 0.25 + 0.5 - mean[c]) / std[c]);
  }
  const Doubles got = doubles(teacher.logits({{"image", images}}));
  const Doubles want = doubles(folder.predictions(seen)),
                other = doubles(folder.predictions(images));
  EXPECT_LT(max_abs_difference(got, want), 1e-4 * max_abs(want));
  EXPECT_GT(max_abs_difference(got, other), 1e-2 * max_abs(want));
}

TEST(Teacher, AddsDistillationLoss) {
  const TeacherFolder folder(small());
  for (bool distilled : {false, true}) {
    for (bool hard : {false, true}) {
      const ExperimentConfig config =
          small({folder.setting(), cat("model.distilled=", distilled ? "true" : "false"),
                 "distill.alpha=0.25", "distill.temperature=3", "train.label_smoothing=0.1",
                 cat("distill.type=", hard ? "hard" : "soft")});
      Classify task(config);
      task.prepare_training(DType::kFloat32);
      const Fields batch = {{"image", some_images(config)},
                            {"label", Tensor::from(std::vector<std::int64_t>{0, 4, 2, 2}, {4})}};
      Context ctx;
      ctx.mode.training = true;
      std::vector<Term> terms;
      const double loss = element(task.loss(ctx, batch, terms).value(), 0);
      const std::vector<Variable> heads = task.model().forward_heads(ctx, batch);
      EXPECT_EQ(heads.size(), distilled ? 2u : 1u);
      const double base = element(
          ops::cross_entropy(ctx, heads.front(), {batch.at("label"), {}, 0.1}).mean.value(), 0);
      const Tensor answers = folder.predictions(batch.at("image"));
      const double taught = element(
          ops::distillation(ctx, heads.back(), answers, {.hard = hard, .temperature = 3}).value(),
          0);
      EXPECT_NEAR(loss, 0.75 * base + 0.25 * taught, 1e-6);
      ASSERT_EQ(terms.size(), 2u);
      EXPECT_EQ(terms[0].name, "loss_labels");
      EXPECT_NEAR(element(terms[0].value, 0), base, 1e-6);
      EXPECT_EQ(terms[1].name, "loss_teacher");
      EXPECT_NEAR(element(terms[1].value, 0), taught, 1e-6);
      EXPECT_EQ(task.stores().size(), 1u) << "the teacher is in no checkpoint";
      EXPECT_EQ(task.checkpoint_config(config).distill.teacher,
                "fingerprint:" + fingerprint_of(read_safetensors(folder.file()).tensors));
    }
  }
}

TEST(Teacher, RejectsOtherClassesAndImages) {
  const TeacherFolder folder(small());
  const auto error_of = [&](const std::vector<std::string>& set) {
    std::vector<std::string> all = set;
    all.insert(all.begin(), folder.setting());
    try {
      Teacher({small(all), kCpu, standard_registries()}, DType::kFloat32, kUnnamed);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  const auto expect = [&](const std::vector<std::string>& set, const std::string& part) {
    const std::string error = error_of(set);
    EXPECT_NE(error.find(part), std::string::npos) << error << "\nwanted: " << part;
  };
  EXPECT_EQ(error_of({}), "");
  expect({"model.image_size=16"}, "its model.image_size is 8 x 8, but the student's is 16 x 16");
  expect({"model.num_classes=7"}, "its model.num_classes is 5, but the student's is 7");
  expect({"model.channels=1"}, "its model.channels is 3, but the student's is 1");
  expect({"distill.teacher=/nowhere"}, "/nowhere is neither a safetensors file nor a folder");
  // A file without the head's weights is no teacher.
  NamedTensors some = read_safetensors(folder.file()).tensors;
  std::erase_if(some, [](const auto& t) { return t.first.starts_with("head."); });
  write_safetensors(folder.file(), some, {{"config", to_yaml(small())}});
  expect({}, "has no tensor for head.weight [5, 12]");
  write_safetensors(folder.file(), some);
  expect({}, "has no config; set distill.teacher_config");
}

}  // namespace
}  // namespace dtn::test
