// Heads of weight files and teachers: their rows are matched by class name.
#include <gtest/gtest.h>

#include "dtn/config/load.h"
#include "dtn/models/weights.h"
#include "dtn/tasks/classify.h"
#include "dtn/tasks/registries.h"
#include "tasks/class_names.h"
#include "tasks/teacher.h"
#include "temp_folder.h"
#include "tensors.h"
#include "texts.h"

namespace dtn::test {
namespace {

using Names = std::vector<std::string>;

ExperimentConfig config_of(const std::string& preset, int classes, const Names& set = {}) {
  Names all = {cat("model.num_classes=", classes)};
  all.insert(all.end(), set.begin(), set.end());
  const std::string size = preset == "levit_128s"
                               ? "image_size: 32"
                               : "image_size: 8, patch_size: 4, embed_dim: 12, depth: 1, "
                                 "num_heads: 2, mlp_ratio: 2";
  return parse_experiment(
      cat("model: {preset: ", preset, ", ", size, "}\ndata: {dataset: synthetic}\n"), "test", all,
      standard_registries().schemas());
}

// Training samples with class names.
class NamedSamples final : public SampleSource {
 public:
  explicit NamedSamples(Names names) : names_(std::move(names)) {}
  std::int64_t size() const override { return 1; }
  const std::string& description() const override { return description_; }
  std::vector<std::string> class_names() const override { return names_; }
  std::vector<FieldSpec> host_fields() const override { return {}; }
  void make(std::int64_t, const SampleKey&, FieldRow&, Workspace&) const override {}

 private:
  Names names_;
  std::string description_ = "samples";
};

class KeptHead : public ::testing::Test {
 protected:
  // Writes a model's weights and returns the model.
  std::unique_ptr<Classifier> write(const ExperimentConfig& config, const Names& names) {
    auto model = std::make_unique<Classifier>(config.model, 1);
    for (Parameter& p : model->parameters().parameters()) {
      assign(p.variable.value(), random_tensor(p.shape, stream_of(p.name), 0.5));
    }
    StringMap metadata{{"config", to_yaml(config)}};
    if (!names.empty()) metadata.emplace(kClassNamesKey, as_json(names));
    write_safetensors(file(), named_values(model->parameters()), metadata);
    return model;
  }
  std::string file() const { return (dir_.path() / "model.safetensors").string(); }

  // Columns `of` of a batch of logits.
  static Doubles columns(const Tensor& logits, const std::vector<std::int64_t>& of) {
    return doubles(logits_of(logits, of));
  }
  TempFolder dir_;
};

Tensor images_for(const ExperimentConfig& c) {
  const ImageSize& size = c.model.image_size;
  return as(random_tensor({3, 3, size.height, size.width}, 9), DType::kFloat32);
}

// The head of each family: a linear layer, one after a BatchNorm, and pairs for distillation.
TEST_F(KeptHead, SelectsRowsByName) {
  struct Case {
    std::string preset;
    Names set;
  };
  for (const Case& c : {Case{"deit_tiny", {}}, Case{"deit_tiny", {"model.distilled=true"}},
                        Case{"levit_128s", {}}, Case{"levit_128s", {"model.distilled=true"}}}) {
    const auto source = write(config_of(c.preset, 3, c.set), {"cat", "dog", "fish"});
    const ExperimentConfig config = config_of(c.preset, 2, c.set);
    Classify task(config);
    task.learn_classes(NamedSamples({"fish", "cat"}));
    const auto notes = task.load_weights(file(), WeightsUse::kTraining);
    EXPECT_FALSE(notes.empty());
    const Tensor images = images_for(config);
    const Doubles got = doubles(predict(task.model(), images));
    const Doubles want = columns(predict(*source, images), {0, 2});
    for (std::size_t row = 0; row < 3; ++row) {
      EXPECT_EQ(got[2 * row], want[2 * row + 1]) << c.preset;  // fish
      EXPECT_EQ(got[2 * row + 1], want[2 * row]) << c.preset;  // cat
    }
  }
}

TEST_F(KeptHead, RejectsUnknownClass) {
  write(config_of("deit_tiny", 3), {"cat", "dog", "fish"});
  Classify task(config_of("deit_tiny", 3));
  task.learn_classes(NamedSamples({"cat", "dog", "zebra"}));
  expect_error<DataError>([&] { task.load_weights(file(), WeightsUse::kTraining); },
                          {"'zebra'", "model.init_head: reset"});
  Classify anew(config_of("deit_tiny", 3, {"model.init_head=reset"}));
  anew.learn_classes(NamedSamples({"cat", "dog", "zebra"}));
  anew.load_weights(file(), WeightsUse::kTraining);
}

TEST_F(KeptHead, AcceptsFileWithoutNames) {
  const auto source = write(config_of("deit_tiny", 2), {});
  Classify task(config_of("deit_tiny", 2));
  task.learn_classes(NamedSamples({"cat", "dog"}));
  const auto notes = task.load_weights(file(), WeightsUse::kTraining);
  ASSERT_FALSE(notes.empty());
  EXPECT_NE(notes.back().find("does not name its classes"), std::string::npos) << notes.back();
  const Tensor images = images_for(config_of("deit_tiny", 2));
  EXPECT_TRUE(same_bits(predict(task.model(), images), predict(*source, images)));
  Classify larger(config_of("deit_tiny", 3));
  larger.learn_classes(NamedSamples({"cat", "cow", "dog"}));
  EXPECT_NE(larger.load_weights(file(), WeightsUse::kTraining).front().find("left at its init"),
            std::string::npos);
}

// Outside of training no weight of a head may be random.
TEST_F(KeptHead, RejectsMismatchInEvaluation) {
  write(config_of("deit_tiny", 3), {});
  Classify other(config_of("deit_tiny", 4));
  expect_error<DataError>([&] { other.load_weights(file(), WeightsUse::kEvaluation); },
                          {"3 classes", "model.num_classes is 4", "set model.num_classes: 3"});
  Classify features(config_of("deit_tiny", 0));
  features.load_weights(file(), WeightsUse::kEvaluation);
  write(config_of("deit_tiny", 0), {});
  Classify task(config_of("deit_tiny", 3));
  expect_error<DataError>([&] { task.load_weights(file(), WeightsUse::kEvaluation); },
                          {"no head.weight", "random", "model.num_classes: 0"});
}

TEST_F(KeptHead, TeacherLogitsMatchByName) {
  const auto source = write(config_of("deit_tiny", 3), {"cat", "dog", "fish"});
  const ExperimentConfig student = config_of("deit_tiny", 2, {"distill.teacher=" + file()});
  const TaskSetup setup{student, kCpu, standard_registries()};
  Teacher teacher(setup, DType::kFloat32, {"the student", {"fish", "cat"}, 2});
  const Tensor images = images_for(student);
  const Doubles got = doubles(teacher.logits({{"image", images}}));
  const Doubles want = columns(predict(*source, images), {0, 2});
  for (std::size_t row = 0; row < 3; ++row) {
    EXPECT_EQ(got[2 * row], want[2 * row + 1]);
    EXPECT_EQ(got[2 * row + 1], want[2 * row]);
  }
  expect_error<DataError>(
      [&] {
        Teacher(setup, DType::kFloat32, {"the student", {"fish", "cow"}, 2});
      },
      {"'cow'", "teacher"});
  expect_error<ConfigError>(
      [&] {
        Teacher(setup, DType::kFloat32, {"the student", {}, 2});
      },
      {"model.num_classes"});
}

}  // namespace
}  // namespace dtn::test
