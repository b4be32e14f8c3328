// The public networks of DINO: their tensors, and the layouts of their files, in the true shapes.
#include <algorithm>
#include <map>

#include "dtn/config/load.h"
#include "dtn/models/weights.h"
#include "dtn/tasks/registries.h"
#include "tensors.h"
#include "texts.h"
#include "tiny_vit.h"

namespace dtn::test {
namespace {

ModelConfig public_model(const std::string& name) {
  const ConfigSchemas schemas = standard_registries().schemas();
  return load_experiment(find_config(name, schemas), {}, schemas).model;
}

// The tensors of DINO's backbone files, by timm's names.
std::map<std::string, Shape> tensors_of(std::int64_t width, std::int64_t patch) {
  const std::int64_t patches = (224 / patch) * (224 / patch);
  std::map<std::string, Shape> tensors{{"cls_token", {1, 1, width}},
                                       {"pos_embed", {1, 1 + patches, width}},
                                       {"patch_embed.proj.weight", {width, 3, patch, patch}},
                                       {"patch_embed.proj.bias", {width}},
                                       {"norm.weight", {width}},
                                       {"norm.bias", {width}}};
  for (int i = 0; i < 12; ++i) {
    const auto linear = [&](const char* name, std::int64_t out, std::int64_t in) {
      tensors[cat("blocks.", i, ".", name, ".weight")] = Shape{out, in};
      tensors[cat("blocks.", i, ".", name, ".bias")] = Shape{out};
    };
    linear("attn.qkv", 3 * width, width);
    linear("attn.proj", width, width);
    linear("mlp.fc1", 4 * width, width);
    linear("mlp.fc2", width, 4 * width);
    for (const char* norm : {"norm1", "norm2"}) {
      tensors[cat("blocks.", i, ".", norm, ".weight")] = Shape{width};
      tensors[cat("blocks.", i, ".", norm, ".bias")] = Shape{width};
    }
  }
  return tensors;
}

TEST(PublicDino, PresetsHaveTheTensorsOfTheFiles) {
  struct Case {
    std::string name;
    std::int64_t width, patch, parameters;
  };
  for (const Case& c : {Case{"vit_small_patch16_224.dino", 384, 16, 21665664},
                        Case{"vit_small_patch8_224.dino", 384, 8, 21670272},
                        Case{"vit_base_patch16_224.dino", 768, 16, 85798656},
                        Case{"vit_base_patch8_224.dino", 768, 8, 85807872}}) {
    SCOPED_TRACE(c.name);
    const ModelConfig config = public_model(c.name);
    EXPECT_EQ(config.num_classes, 0);
    EXPECT_EQ(config.eps, 1e-6);
    Classifier model(config, 0, DType::kFloat32, kMeta);
    EXPECT_EQ(model.parameters().count(), c.parameters);
    std::map<std::string, Shape> found;
    for (const Parameter& p : model.parameters().parameters()) found[p.name] = p.shape;
    EXPECT_EQ(found.size(), 150u);
    EXPECT_EQ(found, tensors_of(c.width, c.patch));
    EXPECT_TRUE(model.parameters().buffers().empty());
  }
}

TEST(PublicDino, PresetPreparesImagesAsForImageNet) {
  const ConfigSchemas schemas = standard_registries().schemas();
  const ExperimentConfig config =
      load_experiment(find_config("vit_small_patch16_224.dino", schemas), {}, schemas);
  EXPECT_EQ(config.data.mean, (std::vector<double>{0.485, 0.456, 0.406}));
  EXPECT_EQ(config.data.std, (std::vector<double>{0.229, 0.224, 0.225}));
  EXPECT_EQ(config.data.interpolation, Interpolation::kBicubic);
}

// A backbone with DINO's projection head beside it. All heads of a file share their memory.
void add_network(NamedTensors& file, const NamedTensors& backbone, const std::string& prefix) {
  const auto zeros = [](const Shape& shape) { return Tensor::zeros(shape, DType::kFloat32); };
  static const NamedTensors head{{"head.mlp.0.weight", zeros({2048, 384})},
                                 {"head.mlp.0.bias", zeros({2048})},
                                 {"head.mlp.2.weight", zeros({2048, 2048})},
                                 {"head.mlp.2.bias", zeros({2048})},
                                 {"head.mlp.4.weight", zeros({256, 2048})},
                                 {"head.mlp.4.bias", zeros({256})},
                                 {"head.last_layer.weight_g", zeros({65536, 1})},
                                 {"head.last_layer.weight_v", zeros({65536, 256})}};
  for (const auto& [name, tensor] : backbone)
    file.emplace_back(prefix + "backbone." + name, tensor);
  for (const auto& [name, tensor] : head) file.emplace_back(prefix + name, tensor);
}

TEST(PublicDino, LoadsEachLayoutOfAFile) {
  const ModelConfig config = public_model("vit_small_patch16_224.dino");
  Classifier source(config, 1), student(config, 2);
  const NamedTensors plain = named_values(source.parameters());
  std::map<std::string, NamedTensors> files{{"timm", plain}};
  for (const auto& [name, tensor] : plain) {
    files["backbone"].emplace_back("module.backbone." + name, tensor);
  }
  add_network(files["with head"], plain, "");
  add_network(files["wrapped with head"], plain, "module.");
  NamedTensors& full = files["full checkpoint"];
  add_network(full, named_values(student.parameters()), "student.module.");
  add_network(full, plain, "teacher.");
  full.emplace_back("dino_loss.center", Tensor::zeros({1, 65536}, DType::kFloat32));
  for (const auto& [layout, file] : files) {
    SCOPED_TRACE(layout);
    Classifier model(config, 3);
    load_adapted(model, file, "file");
    EXPECT_TRUE(same_bits(model.parameters().values(), source.parameters().values()));
  }
}

}  // namespace
}  // namespace dtn::test
