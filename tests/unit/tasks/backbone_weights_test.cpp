// Weights files as the start of the tasks dino and supcon.
#include "tasks/backbone_weights.h"

#include "dtn/models/weights.h"
#include "dtn/tasks/task.h"
#include "self_supervised_runs.h"
#include "texts.h"

namespace dtn::test {
namespace {

using Texts = std::vector<std::string>;

const char* const kGolden = "dino_frozen";

NamedTensors golden_tensors() {
  return read_safetensors(golden_file(cat(kGolden, "_init.safetensors"))).tensors;
}

NamedTensors prefixed(const std::string& prefix, NamedTensors tensors) {
  for (auto& [name, tensor] : tensors) name.insert(0, prefix);
  return tensors;
}

std::string lines_of(const Texts& notes) {
  std::string all;
  for (const std::string& note : notes) all += note + "\n";
  return all;
}

// A task that has loaded a file.
struct Loaded {
  ExperimentConfig config;
  std::unique_ptr<Task> task;
  std::string notes;

  NamedTensors store(std::size_t index) const {
    return named_values(*task->stores().at(index).value);
  }
};

Loaded load(const ExperimentConfig& config, const NamedTensors& tensors) {
  const TempFolder folder;
  const std::string file = (folder.path() / "file.safetensors").string();
  write_safetensors(file, tensors);
  Loaded loaded{config, make_task({config, kCpu, standard_registries()}), ""};
  loaded.notes = lines_of(loaded.task->load_weights(file, WeightsUse::kTraining));
  return loaded;
}

Loaded load_dino(const NamedTensors& tensors, const Texts& overrides = {}) {
  return load(golden_config(kGolden, "dino", overrides), tensors);
}

// Expects that the tensors whose names begin with `prefix` equal those of a file.
void expect_equal(const NamedTensors& found, const NamedTensors& file, const std::string& prefix) {
  std::size_t compared = 0;
  for (const auto& [name, tensor] : found) {
    if (!name.starts_with(prefix)) continue;
    EXPECT_TRUE(same_bits(tensor, named(file, name))) << name;
    ++compared;
  }
  EXPECT_GT(compared, 0u) << prefix;
}

std::string error_of(const NamedTensors& tensors) {
  try {
    load_dino(tensors);
  } catch (const DataError& e) {
    return e.what();
  }
  return "";
}

TEST(BackboneWeights, HeadGoesWithItsBackbone) {
  const NamedTensors file = golden_tensors();
  for (const char* prefix : {"", "module.", "_orig_mod.module.", "model."}) {
    SCOPED_TRACE(prefix);
    const Loaded loaded = load_dino(prefixed(prefix, file));
    EXPECT_EQ(loaded.notes, "");
    for (std::size_t network : {0u, 1u}) expect_equal(loaded.store(network), file, "");
  }
}

// The backbone is adapted, whatever head lies beside it.
TEST(BackboneWeights, OtherHeadStaysUnused) {
  const NamedTensors file = golden_tensors();
  const Texts other{"dino.out_dim=40"};
  const Loaded loaded = load_dino(prefixed("module.", file), other);
  const ExperimentConfig config = golden_config(kGolden, "dino", other);
  const auto fresh = make_task({config, kCpu, standard_registries()});
  expect_contains(loaded.notes,
                  "head: not loaded, because head.last_layer.weight_g is [32, 1], but "
                  "the model needs [40, 1]\n8 tensors not used (head.last_layer.weight_g, ");
  for (std::size_t network : {0u, 1u}) {
    expect_equal(loaded.store(network), file, "backbone.");
    expect_equal(loaded.store(network), named_values(*fresh->stores().front().value), "head.");
  }
}

TEST(BackboneWeights, TasksTakeBackbonesOfEachOther) {
  const NamedTensors file = read_safetensors(golden_file("supcon_init.safetensors")).tensors;
  const Loaded dino = load(golden_config("dino_late_token", "dino"), file);
  expect_equal(dino.store(0), file, "backbone.");
  expect_contains(dino.notes, "because the model has no head.0.bias");
  expect_contains(dino.notes, "4 tensors not used (head.0.bias, head.0.weight, head.2.bias, ");
  const NamedTensors other =
      read_safetensors(golden_file("dino_late_token_init.safetensors")).tensors;
  const Loaded supcon = load(golden_config("supcon", "supcon"), other);
  expect_equal(supcon.store(0), other, "backbone.");
  expect_contains(supcon.notes, "because the model has no head.last_layer.weight_g");
}

TEST(BackboneWeights, AdaptsPositionsBesideAHead) {
  const NamedTensors file = golden_tensors();
  const Loaded loaded = load_dino(file, {"model.image_size=24"});
  expect_contains(loaded.notes, "pos_embed");
  expect_equal(loaded.store(0), file, "head.");
  EXPECT_EQ(named(loaded.store(1), "backbone.pos_embed").dim(1), 37);
}

TEST(BackboneWeights, BackboneAloneLeavesTheHead) {
  const NamedTensors file = golden_tensors();
  NamedTensors timm;
  for (const auto& [name, tensor] : file) {
    constexpr std::string_view kPrefix = "backbone.";
    if (name.starts_with(kPrefix)) timm.emplace_back(name.substr(kPrefix.size()), tensor);
  }
  for (const char* prefix : {"", "backbone.", "module.backbone."}) {
    SCOPED_TRACE(prefix);
    const Loaded loaded = load_dino(prefixed(prefix, timm));
    expect_equal(loaded.store(0), file, "backbone.");
    expect_equal(loaded.store(1), file, "backbone.");
    expect_contains(loaded.notes, "head: not loaded, because the file has no head for it");
  }
}

// A checkpoint of the public DINO code with other weights in each network.
NamedTensors full_checkpoint() {
  NamedTensors file;
  for (const auto& [name, tensor] : golden_tensors()) {
    const Tensor other = as(random_tensor(tensor.shape(), stream_of(name)), DType::kFloat32);
    file.emplace_back("student.module." + name, tensor);
    file.emplace_back("teacher." + name, other);
  }
  file.emplace_back("dino_loss.center", as(random_tensor({1, 32}, 3), DType::kFloat32));
  return file;
}

// The tensors below a prefix, without it.
NamedTensors part_of(const NamedTensors& file, const std::string& prefix) {
  NamedTensors part;
  for (const auto& [name, tensor] : file) {
    if (name.starts_with(prefix)) part.emplace_back(name.substr(prefix.size()), tensor);
  }
  return part;
}

TEST(BackboneWeights, FullCheckpointStartsEachNetwork) {
  const NamedTensors file = full_checkpoint();
  const Loaded loaded = load_dino(file);
  expect_equal(loaded.store(0), part_of(file, "student.module."), "");
  expect_equal(loaded.store(1), part_of(file, "teacher."), "");
  EXPECT_TRUE(same_bits(named(loaded.store(2), "dino.center"), named(file, "dino_loss.center")));
  EXPECT_EQ(loaded.notes, "student, teacher and center: each from its own tensors\n");
}

// The center belongs to the outputs of a head that the model does not have.
TEST(BackboneWeights, FullCheckpointWithOtherHeadLeavesTheCenter) {
  const NamedTensors file = full_checkpoint();
  const Loaded loaded = load_dino(file, {"dino.out_dim=40"});
  expect_equal(loaded.store(0), part_of(file, "student.module."), "backbone.");
  expect_equal(loaded.store(1), part_of(file, "teacher."), "backbone.");
  EXPECT_EQ(max_abs(doubles(named(loaded.store(2), "dino.center"))), 0);
  for (const auto& [name, tensor] : loaded.store(1)) {
    if (!name.starts_with("head.")) continue;
    EXPECT_TRUE(same_bits(tensor, named(loaded.store(0), name))) << name;
  }
  for (const char* note : {"student: head: not loaded", "teacher: head: not loaded",
                           "center: starts at 0", "1 tensor not used (dino_loss.center)"}) {
    expect_contains(loaded.notes, note);
  }
}

TEST(BackboneWeights, OneNetworkOfAFullCheckpointStartsBoth) {
  for (const char* network : {"student.module.", "teacher."}) {
    SCOPED_TRACE(network);
    NamedTensors file = full_checkpoint();
    std::erase_if(file, [&](const auto& t) {
      return !t.first.starts_with(network) && !t.first.starts_with("dino_loss.");
    });
    const Loaded loaded = load_dino(file);
    for (std::size_t store : {0u, 1u})
      expect_equal(loaded.store(store), part_of(file, network), "");
    expect_contains(loaded.notes, "1 tensor not used (dino_loss.center)");
  }
}

TEST(BackboneWeights, OtherTasksTakeTheTeacherOfAFullCheckpoint) {
  const NamedTensors file = full_checkpoint();
  ExperimentConfig config = golden_config(kGolden, "dino");
  const NamedTensors teacher = part_of(file, "teacher.backbone.");
  config.task = "classify";
  config.model.num_classes = 3;
  const Loaded classify = load(config, file);
  expect_equal(part_of(classify.store(0), "norm."), part_of(teacher, "norm."), "");
  expect_equal(part_of(classify.store(0), "blocks."), part_of(teacher, "blocks."), "");
  expect_contains(classify.notes, "removed the prefix 'teacher.backbone.'");
  expect_contains(classify.notes, "head.weight: not in ");
  config.task = "supcon";
  const Loaded supcon = load(config, file);
  expect_equal(supcon.store(0), part_of(file, "teacher."), "backbone.");
  expect_contains(supcon.notes, "head: not loaded, because the model has no head.last_layer");
}

TEST(BackboneWeights, RefusesCenterOfOtherSize) {
  NamedTensors file = full_checkpoint();
  file.back().second = Tensor::zeros({1, 31}, DType::kFloat32);
  expect_contains(error_of(file),
                  "tensor dino.center has shape [1, 31], but the model needs [1, 32]");
}

TEST(BackboneWeights, RefusesTwoBackbonesInOneFile) {
  const NamedTensors file = golden_tensors();
  for (const char* other :
       {"cls_token", "module.backbone.cls_token", "backbone.module.cls_token"}) {
    NamedTensors both = file;
    both.emplace_back(other, named(file, "backbone.cls_token").clone());
    const std::string error = error_of(both);
    expect_contains(error, cat(other));
    expect_contains(error, "may be the model's cls_token");
  }
}

TEST(BackboneWeights, NamesMissingTensor) {
  NamedTensors file = golden_tensors();
  std::erase_if(file, [](const auto& t) { return t.first == "backbone.blocks.1.mlp.fc2.bias"; });
  expect_contains(error_of(file), "tensor blocks.1.mlp.fc2.bias [16] is missing");
  NamedTensors headless = golden_tensors();
  std::erase_if(headless, [](const auto& t) { return t.first == "head.mlp.2.bias"; });
  expect_contains(load_dino(headless).notes, "because it has no head.mlp.2.bias");
}

TEST(BackboneWeights, ResetHeadIsTheSameInBothNetworks) {
  for (const char* name : {"dino_frozen", "supcon"}) {
    SCOPED_TRACE(name);
    const NamedTensors file = read_safetensors(golden_file(cat(name, "_init.safetensors"))).tensors;
    const ExperimentConfig config =
        golden_config(name, std::string(name).substr(0, std::string(name).find('_')));
    const Loaded loaded = load(config, file);
    const auto fresh = make_task({config, kCpu, standard_registries()});
    loaded.task->reset_head(config.seed);
    for (std::size_t network = 0; network < (config.task == "dino" ? 2u : 1u); ++network) {
      expect_equal(loaded.store(network), file, "backbone.");
      expect_equal(loaded.store(network), named_values(*fresh->stores().front().value), "head.");
    }
  }
}

}  // namespace
}  // namespace dtn::test
