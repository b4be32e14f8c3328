// The task detect: the same losses for any threads and batch padding, images without objects,
// detections that do not depend on the batch, its config, and its weights.
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "data/shapes/write_shapes.h"
#include "dtn/config/load.h"
#include "dtn/core/check.h"
#include "dtn/core/parallel.h"
#include "dtn/io/safetensors.h"
#include "dtn/models/weights.h"
#include "dtn/tasks/detect.h"
#include "dtn/tasks/registries.h"
#include "independent_images.h"
#include "tasks/detect/meter.h"
#include "temp_folder.h"
#include "tensors.h"
#include "texts.h"

namespace dtn::test {
namespace {

constexpr const char* kTiny = R"(
model: {preset: pvt_tiny, image_size: 64, embed_dim: [8, 16, 24, 32], depth: [1, 1, 1, 1],
        num_heads: [1, 2, 2, 4], mlp_ratio: [2, 2, 2, 2], norm: dtn, num_classes: 3, drop_path: 0,
        fpn_channels: 16, head_convs: 1, head_fc: 24, roi_samples: 32})";

ExperimentConfig config_of(const std::string& detector, const std::filesystem::path& root) {
  return parse_experiment(cat(kTiny, "\ndata: {dataset: coco, root: ", root.string(),
                              ", train: train, val: val, scale: [64, 64]}\nseed: 3\n"),
                          "test", std::vector<std::string>{"model.detector=" + detector},
                          standard_registries().schemas());
}

// Generated pictures, made once.
const std::filesystem::path& shapes_folder() {
  static const TempFolder folder;
  static const bool made = [] {
    shapes::write_shapes({.output = folder.path() / "shapes", .seed = 1, .train = 30, .val = 8});
    return true;
  }();
  static_cast<void>(made);
  static const std::filesystem::path path = folder.path() / "shapes";
  return path;
}

// The fields of some samples.
Fields batch_of(const SampleSource& source, const std::vector<std::int64_t>& indices) {
  Fields fields;
  const auto count = static_cast<std::int64_t>(indices.size());
  for (const FieldSpec& spec : source.host_fields()) {
    fields[spec.name] = Tensor::empty(shape_of(spec, count), spec.dtype);
    if (spec.ragged) fields[lengths_of(spec.name)] = Tensor::empty({count}, DType::kInt64);
  }
  const auto workspace = source.make_workspace();
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t index = indices[static_cast<std::size_t>(i)];
    FieldRow row(fields, i);
    source.make(index, {.seed = 3, .epoch = 1, .sample = static_cast<std::uint64_t>(index)}, row,
                *workspace);
  }
  return fields;
}

std::unique_ptr<Detect> make_detector(const std::string& kind) {
  const ExperimentConfig config = config_of(kind, shapes_folder());
  return std::make_unique<Detect>(TaskSetup{config, kCpu, standard_registries()});
}

struct Step {
  double loss;
  std::vector<Term> terms;
  Tensor gradients;
};

Step train_step(Detect& task, const Fields& batch) {
  ParameterStore& store = task.detector().parameters();
  store.zero_gradients();
  Tape tape;
  Context ctx;
  ctx.tape = &tape;
  ctx.mode.training = true;
  Step step;
  const Variable loss = task.loss(ctx, batch, step.terms);
  tape.backward(loss);
  step.loss = loss.value().data<float>()[0];
  step.gradients = store.gradients().to(kCpu);
  Tensor copy = Tensor::empty_like(step.gradients);
  std::ranges::copy(step.gradients.values<float>(), copy.data<float>());
  step.gradients = copy;
  return step;
}

// The largest magnitude; NaN if there is one.
double largest(const Tensor& x) {
  double most = 0;
  for (const double v : doubles(x)) most = std::isnan(v) ? v : std::max(most, std::abs(v));
  return most;
}

class DetectTask : public testing::TestWithParam<const char*> {};

TEST_P(DetectTask, LossIsTheSumOfItsTermsAndSameForAllThreads) {
  const auto task = make_detector(GetParam());
  const auto source = task->source(Split::kTrain, kCpu);
  const Fields batch = batch_of(*source, {0, 1, 2});
  const Step one = [&] {
    const Threads threads(1);
    return train_step(*task, batch);
  }();
  double sum = 0;
  for (const Term& term : one.terms) {
    EXPECT_TRUE(std::isfinite(term.value.data<float>()[0])) << term.name;
    sum += term.value.data<float>()[0];
  }
  EXPECT_EQ(one.terms.size(), std::string(GetParam()) == "retinanet" ? 2u : 5u);
  EXPECT_NEAR(sum, one.loss, 1e-5 * one.loss);
  EXPECT_GT(largest(one.gradients), 0);
  for (const int count : {2, 3}) {
    const Threads threads(count);
    const Step other = train_step(*task, batch);
    EXPECT_EQ(other.loss, one.loss) << count;
    EXPECT_TRUE(same_bits(other.gradients, one.gradients)) << count;
  }
}

TEST_P(DetectTask, PictureWithoutObjectsTrainsTheBackground) {
  const auto task = make_detector(GetParam());
  const auto source = task->source(Split::kTrain, kCpu);
  Fields batch = batch_of(*source, {0, 1});
  for (const char* field : {"boxes", "truths"}) {
    batch.at(lengths_of(field)) = Tensor::zeros({2}, DType::kInt64);
  }
  const Step step = train_step(*task, batch);
  for (const Term& term : step.terms) {
    const float value = term.value.data<float>()[0];
    EXPECT_TRUE(std::isfinite(value)) << term.name;
    if (term.name.ends_with("bbox") || term.name == "loss_mask") {
      EXPECT_EQ(value, 0) << term.name;
    }
  }
  EXPECT_TRUE(std::isfinite(largest(step.gradients)));
}

TEST_P(DetectTask, DetectionsDoNotDependOnTheBatch) {
  const auto task = make_detector(GetParam());
  const auto source = task->source(Split::kVal, kCpu);
  Context ctx;
  const Fields together = task->outputs(ctx, batch_of(*source, {0, 1, 2, 3}));
  for (std::int64_t i = 0; i < 4; ++i) {
    const Fields alone = task->outputs(ctx, batch_of(*source, {i}));
    for (const auto& [name, tensor] : alone) {
      EXPECT_TRUE(same_bits(tensor, together.at(name).slice(i, i + 1))) << name << " " << i;
    }
  }
}

TEST_P(DetectTask, LoadsItsWeightsAndThoseForOtherClasses) {
  const TempFolder folder;
  const auto task = make_detector(GetParam());
  const std::string file = (folder.path() / "model.safetensors").string();
  write_safetensors(file, named_values(task->detector().parameters()));
  ExperimentConfig config = config_of(GetParam(), shapes_folder());
  config.seed = 9;
  Detect same({config, kCpu, standard_registries()});
  same.load_weights(file, WeightsUse::kEvaluation);
  EXPECT_TRUE(
      same_bits(same.detector().parameters().values(), task->detector().parameters().values()));
  config.model.num_classes = 7;
  Detect other({config, kCpu, standard_registries()});
  const auto notes = other.load_weights(file, WeightsUse::kTraining);
  ASSERT_EQ(notes.size(), 1u);
  expect_contains(notes[0], "as those for other classes do");
  const auto value = [](Detect& from, const char* name) {
    return from.detector().parameters().find(name)->variable.value();
  };
  const char* shared = "neck.lateral_convs.0.conv.weight";
  EXPECT_TRUE(same_bits(value(other, shared), value(*task, shared)));
  EXPECT_THROW(other.load_weights(file, WeightsUse::kEvaluation), DataError);
}

INSTANTIATE_TEST_SUITE_P(Kinds, DetectTask, testing::Values("retinanet", "mask_rcnn"));

// Evaluates detectors of three classes on images with fewer categories.
TEST(DetectTaskData, ClassesThatTheImagesDoNotHaveAreLeftOut) {
  const auto task = make_detector("mask_rcnn");
  std::vector<CocoCategory> all_categories(3);
  for (std::size_t i = 0; i < 3; ++i) all_categories[i].id = static_cast<std::int64_t>(5 + 2 * i);
  const std::span<const CocoCategory> categories = all_categories;
  Context ctx;
  const Fields outputs = task->outputs(ctx, batch_of(*task->source(Split::kVal, kCpu), {0}));
  const auto count = [&](std::size_t known) {
    std::size_t listed = 0;
    for (const FoundObject& object : found_in(outputs, 0, categories.first(known), {64, 64})) {
      for (std::size_t i = 0; i < known; ++i) listed += object.category == categories[i].id;
    }
    return std::pair(listed, found_in(outputs, 0, categories.first(known), {64, 64}).size());
  };
  const auto [all, found] = count(3);
  EXPECT_EQ(all, found);
  EXPECT_GT(found, 0u);
  const auto [some, kept] = count(1);
  EXPECT_EQ(some, kept);
  EXPECT_LT(kept, found);
}

// A label is the place of a category in its file.
TEST(DetectTaskData, SplitsHaveTheSameCategories) {
  const TempFolder folder;
  std::filesystem::copy(shapes_folder(), folder.path(), std::filesystem::copy_options::recursive);
  const auto file = folder.path() / "annotations" / "instances_val.json";
  const auto without = [&](std::size_t label) {
    auto json = nlohmann::json::parse(
        std::ifstream(shapes_folder() / "annotations" / "instances_val.json"));
    auto& categories = json["categories"].get_ref<nlohmann::json::array_t&>();
    std::ranges::sort(categories, {}, [](const auto& c) { return c["id"].template get<int>(); });
    const auto id = categories[label]["id"];
    categories.erase(categories.begin() + static_cast<std::ptrdiff_t>(label));
    std::erase_if(json["annotations"].get_ref<nlohmann::json::array_t&>(),
                  [&](const auto& object) { return object["category_id"] == id; });
    std::ofstream(file) << json;
    const ExperimentConfig config = config_of("retinanet", folder.path());
    const Detect task({config, kCpu, standard_registries()});
    task.source(Split::kTrain, kCpu);
    task.source(Split::kVal, kCpu);
  };
  expect_error<DataError>([&] { without(1); }, {"val with", ": class 1 is", "/train: "});
  EXPECT_NO_THROW(without(2)) << "the labels of the others stay";
}

// A classification model becomes the backbone; its head, norm and class token are left out.
TEST(DetectTaskWeights, TakeABackboneFromClassification) {
  const TempFolder folder;
  ExperimentConfig config = parse_experiment(
      "model: {preset: pvt_tiny, image_size: 64, embed_dim: [8, 16, 24, 32], depth: [1, 1, 1, 1], "
      "num_heads: [1, 2, 2, 4], mlp_ratio: [2, 2, 2, 2], norm: dtn, num_classes: 5}",
      "test", {}, standard_registries().schemas());
  Classifier classifier(config.model, 11);
  const std::string file = (folder.path() / "model.safetensors").string();
  write_safetensors(file, named_values(classifier.parameters()));
  const auto task = make_detector("retinanet");
  const auto notes = task->load_weights(file, WeightsUse::kTraining);
  EXPECT_FALSE(notes.empty());
  for (const Parameter& p : task->detector().parameters().parameters()) {
    if (!p.name.starts_with("backbone.")) continue;
    const Parameter* from = classifier.parameters().find(p.name.substr(9));
    ASSERT_NE(from, nullptr) << p.name;
    EXPECT_TRUE(same_bits(p.variable.value(), from->variable.value())) << p.name;
  }
}

// Multiply-adds of the backbone without and with attention, the neck and the heads, as counted by
// hand. Resizing the positions adds a few tenths.
TEST(DetectTaskCost, IsThatOfTheParts) {
  const auto cost_of = [](const char* detector) {
    const ExperimentConfig config =
        parse_experiment("model: {preset: pvt_tiny, num_classes: 80}", "test",
                         std::vector<std::string>{std::string("model.detector=") + detector},
                         standard_registries().schemas());
    return Detect({config, kCpu, standard_registries()}).cost();
  };
  EXPECT_NEAR(cost_of("retinanet").multiply_adds, (39.6 + 35.0 + 14.4 + 144.7) * 1e9, 0.6e9);
  EXPECT_NEAR(cost_of("mask_rcnn").multiply_adds, (39.6 + 35.0 + 54.8 + 53.2 + 67.3) * 1e9, 0.6e9);
  EXPECT_EQ(cost_of("retinanet").parameters, 22'964'724);
}

TEST(DetectTaskConfig, DetectorImpliesTheTask) {
  const auto parse = [](const std::string& text) {
    return parse_experiment(text, "test", {}, standard_registries().schemas());
  };
  EXPECT_EQ(parse("model: {preset: pvt_tiny, detector: retinanet}").task, "detect");
  EXPECT_EQ(parse("model: {preset: pvt_tiny}").task, "classify");
  expect_error<ConfigError>(
      [&] { parse("task: classify\nmodel: {preset: pvt_tiny, detector: retinanet}"); },
      {"model.detector is not read by the task 'classify'", "detect"});
  expect_error<ConfigError>([&] { parse("task: detect\nmodel: {preset: pvt_tiny}"); },
                            {"needs model.detector"});
  expect_error<ConfigError>(
      [&] { parse("model: {preset: pvt_tiny, detector: retinanet}\naugment: deit"); },
      {"augment.preset is not read by the task 'detect'"});
}

TEST(DetectTaskConfig, RefusesStridesThatTheAnchorsDoNotHave) {
  ExperimentConfig config = config_of("retinanet", shapes_folder());
  config.model.patch_size = 2;
  expect_error<ConfigError>(
      [&] {
        Detect({config, kCpu, standard_registries()});
      },
      {"cells of 4 pixels", "anchors are for cells of 8"});
}

TEST(DetectTaskConfig, RefusesModelsWithoutFourStages) {
  ExperimentConfig config = config_of("retinanet", shapes_folder());
  config.model =
      parse_experiment("model: {preset: vit_t}", "test", {}, standard_registries().schemas()).model;
  config.model.detector.kind = DetectorKind::kRetinaNet;
  expect_error<ConfigError>(
      [&] {
        Detect({config, kCpu, standard_registries()});
      },
      {"four stages", "vit_t"});
}

}  // namespace
}  // namespace dtn::test
