// Weights with names of other libraries: wrappers' prefixes, DINOv2's chunks, MAE's decoder,
// Hugging Face's transformers and torchvision. Each case writes a model's weights with such names
// and expects the same bits back.
#include <array>
#include <functional>

#include "dtn/models/weights.h"
#include "tiny_convolutional.h"

namespace dtn {
namespace {

struct NamePair {
  std::string ours, theirs;
};

NamedTensors copies_of(Classifier& model) {
  NamedTensors result;
  for (auto& [name, tensor] : named_values(model.parameters())) {
    result.emplace_back(name, tensor.clone());
  }
  return result;
}

ModelConfig vit_with(const std::string& preset) {
  for (const ModelConfig& c : test::checkpoint_vits()) {
    if (c.preset == preset) return c;
  }
  throw Error(preset);
}

// Replaces the beginnings of names; in blocks, those of the part after the number.
NamedTensors rename_tensors(const NamedTensors& tensors, const std::vector<NamePair>& beginnings,
                            const std::string& layer, const std::vector<NamePair>& in_blocks) {
  const auto replaced = [](std::string name, const std::vector<NamePair>& pairs) {
    for (const auto& [ours, theirs] : pairs) {
      if (name.starts_with(ours)) return theirs + name.substr(ours.size());
    }
    return name;
  };
  NamedTensors result;
  for (const auto& [name, tensor] : tensors) {
    constexpr std::string_view kBlocks = "blocks.";
    if (!name.starts_with(kBlocks)) {
      result.emplace_back(replaced(name, beginnings), tensor);
      continue;
    }
    const std::size_t dot = name.find('.', kBlocks.size());
    const std::string number = name.substr(kBlocks.size(), dot - kBlocks.size());
    result.emplace_back(cat(layer, number, ".", replaced(name.substr(dot + 1), in_blocks)), tensor);
  }
  return result;
}

// Splits tensors whose names contain `whole` into equal row blocks, one for each name in `parts`.
NamedTensors split_tensors(const NamedTensors& tensors, const std::string& whole,
                           const std::vector<std::string>& parts) {
  NamedTensors result;
  for (const auto& [name, tensor] : tensors) {
    const std::size_t at = name.find(whole);
    if (at == std::string::npos) {
      result.emplace_back(name, tensor);
      continue;
    }
    const std::int64_t rows = tensor.dim(0) / static_cast<std::int64_t>(parts.size());
    for (std::size_t i = 0; i < parts.size(); ++i) {
      std::string part = name;
      part.replace(at, whole.size(), parts[i]);
      const auto first = static_cast<std::int64_t>(i) * rows;
      result.emplace_back(part, tensor.slice(first, first + rows).clone());
    }
  }
  return result;
}

NamedTensors with_prefix(const std::string& prefix, NamedTensors tensors) {
  for (auto& [name, tensor] : tensors) name.insert(0, prefix);
  return tensors;
}

std::string joined(const std::vector<std::string>& notes) {
  std::string all;
  for (const std::string& note : notes) all += note + "\n";
  return all;
}

// Returns the notes of loading `tensors`, which must give the bits of `source`.
std::string notes_of_loading(Classifier& source, const NamedTensors& tensors) {
  Classifier target(source.config(), 2);
  const std::string notes = joined(load_adapted(target, tensors, "file"));
  EXPECT_TRUE(test::same_bits(source.parameters().values(), target.parameters().values())) << notes;
  return notes;
}

std::string error_of_loading(const ModelConfig& c, const NamedTensors& tensors) {
  Classifier target(c, 2);
  try {
    load_adapted(target, tensors, "file");
  } catch (const DataError& e) {
    return e.what();
  }
  return "";
}

void expect_text(const std::string& text, std::initializer_list<std::string> parts) {
  for (const std::string& part : parts) {
    EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' is not in: " << text;
  }
}

Tensor zeros(const Shape& shape) { return Tensor::zeros(shape, DType::kFloat32); }

// A model whose parameters all have different values.
struct DistinctModel : Classifier {
  explicit DistinctModel(const ModelConfig& c) : Classifier(c, 1) { test::perturb(parameters()); }
};

// --- prefixes ------------------------------------------------------------------------------------

TEST(WeightNames, RemovesWrapperPrefix) {
  DistinctModel vit(test::deit_vit());
  const NamedTensors plain = copies_of(vit);
  EXPECT_EQ(notes_of_loading(vit, plain), "");
  for (const char* prefix : {"module.", "_orig_mod.", "model.", "backbone.", "teacher.backbone.",
                             "_orig_mod.module.", "module.backbone.", "model.module._orig_mod."}) {
    EXPECT_EQ(notes_of_loading(vit, with_prefix(prefix, plain)),
              cat("removed the prefix '", prefix, "' from ", plain.size(), " tensors\n"));
  }
  EXPECT_NE(error_of_loading(vit.config(), with_prefix("encoder.", plain)), "");
}

TEST(WeightNames, RemovesPrefixForEveryFamily) {
  ModelConfig levit = test::tiny_levit(), t2t = test::tiny_t2t();
  for (ModelConfig* c : {&levit, &t2t}) c->init_image_size = c->image_size;  // not in the file
  for (const ModelConfig& c : {levit, t2t, test::tiny_resnet(), test::tiny_regnet()}) {
    DistinctModel model(c);
    NamedTensors tensors = with_prefix("module.", copies_of(model));
    if (c.family == "resnet") tensors.emplace_back("module.bn1.num_batches_tracked", zeros({1}));
    expect_text(notes_of_loading(model, tensors), {"removed the prefix 'module.'"});
  }
}

TEST(WeightNames, KeepsHeadOfWrappedBackbone) {
  DistinctModel vit(test::deit_vit());
  for (const char* head : {"head.", "classifier."}) {
    NamedTensors tensors;
    for (const auto& [name, tensor] : copies_of(vit)) {
      tensors.emplace_back(name.starts_with("head.") ? head + name.substr(5) : "backbone." + name,
                           tensor);
    }
    tensors.emplace_back("projector.0.weight", zeros({4, 20}));
    tensors.emplace_back("projector.0.bias", zeros({4}));
    expect_text(notes_of_loading(vit, tensors), {"removed the prefix 'backbone.' from",
                                                 "2 others are not used (projector.0.weight"});
  }
}

TEST(WeightNames, PrefersTeacherOverStudent) {
  ModelConfig c = vit_with("dinov2");
  DistinctModel teacher(c);
  Classifier student(c, 5);
  NamedTensors tensors = with_prefix("student.backbone.", copies_of(student));
  const std::size_t others = tensors.size() + 1;
  for (auto& t : with_prefix("teacher.backbone.", copies_of(teacher))) tensors.push_back(t);
  tensors.emplace_back("teacher.dino_head.mlp.0.weight", zeros({8, 64}));
  expect_text(notes_of_loading(teacher, tensors),
              {"removed the prefix 'teacher.backbone.'", cat(others, " others are not used (")});
}

// Names of one parameter that differ only in prefixes.
TEST(WeightNames, RejectsTwoNetworksInOneFile) {
  const ModelConfig c = test::deit_vit();
  DistinctModel vit(c);
  NamedTensors tensors = copies_of(vit);
  for (const char* other :
       {"module.norm.weight", "backbone.norm.weight", "model.backbone.norm.weight"}) {
    NamedTensors both = tensors;
    both.emplace_back(other, zeros({20}));
    expect_text(error_of_loading(c, both),
                {cat("both norm.weight and ", other, " may be the model's norm.weight")});
  }
}

TEST(WeightNames, RejectsDuplicateNames) {
  const ModelConfig c = vit_with("deit3");
  DistinctModel vit(c);
  NamedTensors tensors = copies_of(vit);
  tensors.emplace_back("blocks.0.gamma_1", zeros({64}));
  expect_text(error_of_loading(c, tensors), {"two of its tensors", "blocks.0.ls1.gamma"});
}

// --- vision transformers' releases ---------------------------------------------------------------

TEST(WeightNames, NumbersBlocksAcrossChunks) {
  ModelConfig c = vit_with("dinov2");
  c.depth = 4;
  DistinctModel vit(c);
  NamedTensors tensors = copies_of(vit);
  for (auto& [name, tensor] : tensors) {  // two blocks per chunk: blocks.1.2, blocks.1.3
    if (!name.starts_with("blocks.")) continue;
    const int block = name[7] - '0';
    name.insert(7, cat(block / 2, "."));
  }
  const std::string notes = notes_of_loading(vit, tensors);
  EXPECT_EQ(notes, "blocks in chunks, as DINOv2 stores them: blocks.1.3 is block 3\n");
  expect_text(notes_of_loading(vit, with_prefix("teacher.backbone.", tensors)),
              {"teacher.backbone.", "blocks.1.3 is block 3"});
}

TEST(WeightNames, SkipsMaeDecoder) {
  ModelConfig c = vit_with("mae");
  c.fc_norm = false;
  c.num_classes = 0;
  DistinctModel vit(c);
  NamedTensors tensors = copies_of(vit);
  for (const char* name : {"decoder_pos_embed", "decoder_embed.weight", "decoder_norm.bias",
                           "decoder_blocks.0.attn.qkv.weight", "decoder_pred.weight"}) {
    tensors.emplace_back(name, zeros({1, 8}));
  }
  tensors.emplace_back("mask_token", zeros({1, 1, 8}));
  EXPECT_EQ(notes_of_loading(vit, tensors),
            "decoder_*, mask_token: 6 tensors of MAE's decoder not used\n");
}

// --- Hugging Face's transformers -----------------------------------------------------------------

const std::vector<NamePair> kHubNames = {
    {"cls_token", "embeddings.cls_token"},
    {"dist_token", "embeddings.distillation_token"},
    {"reg_token", "embeddings.register_tokens"},
    {"pos_embed", "embeddings.position_embeddings"},
    {"patch_embed.proj.", "embeddings.patch_embeddings.projection."},
    {"norm.", "layernorm."},
};
const std::vector<NamePair> kHubBlock = {
    {"norm1.", "layernorm_before."},
    {"norm2.", "layernorm_after."},
    {"attn.proj.", "attention.output.dense."},
    {"mlp.fc1.", "intermediate.dense."},
    {"mlp.fc2.", "output.dense."},
};
const std::vector<NamePair> kHubBlockOfDinov2 = {
    {"attn.proj.", "attention.output.dense."},
    {"ls1.gamma", "layer_scale1.lambda1"},
    {"ls2.gamma", "layer_scale2.lambda1"},
};
const std::vector<std::string> kHubQkv = {"attention.attention.query.", "attention.attention.key.",
                                          "attention.attention.value."};
const std::vector<std::string> kHubQkvInMemory = {"attention.q_proj.", "attention.k_proj.",
                                                  "attention.v_proj."};

// The heads do not have the model's prefix.
NamedTensors with_hub_prefix(const std::string& prefix, NamedTensors tensors,
                             const std::vector<NamePair>& heads) {
  for (auto& [name, tensor] : tensors) {
    bool head = false;
    for (const auto& [ours, theirs] : heads) {
      if (head || !name.starts_with(ours)) continue;
      name = theirs + name.substr(ours.size());
      head = true;
    }
    if (!head) name.insert(0, prefix);
  }
  return tensors;
}

TEST(WeightNames, MapsTransformersVit) {
  DistinctModel vit(test::deit_vit());
  const NamedTensors plain = split_tensors(
      rename_tensors(copies_of(vit), kHubNames, "encoder.layer.", kHubBlock), "attn.qkv.", kHubQkv);
  for (const char* prefix : {"vit.", ""}) {
    NamedTensors tensors = with_hub_prefix(prefix, plain, {{"head.", "classifier."}});
    EXPECT_EQ(notes_of_loading(vit, tensors),
              "tensor names of Hugging Face's transformers: query, key and value of each block are "
              "joined\n");
    tensors.emplace_back(cat(prefix, "pooler.dense.weight"), zeros({20, 20}));
    tensors.emplace_back(cat(prefix, "pooler.dense.bias"), zeros({20}));
    expect_text(notes_of_loading(vit, tensors), {cat(prefix, "pooler: 2 tensors not used")});
    expect_text(notes_of_loading(vit, with_prefix("module.", tensors)),
                {"removed the prefix 'module.'", "Hugging Face"});
  }
}

// Module names since transformers 5, as in the result of state_dict().
TEST(WeightNames, MapsTransformersModuleNames) {
  DistinctModel vit(test::deit_vit());
  const std::vector<NamePair> block = {{"norm1.", "layernorm_before."},
                                       {"norm2.", "layernorm_after."},
                                       {"attn.proj.", "attention.o_proj."}};
  const NamedTensors tensors = split_tensors(
      rename_tensors(copies_of(vit), kHubNames, "layers.", block), "attn.qkv.", kHubQkvInMemory);
  notes_of_loading(vit, with_hub_prefix("vit.", tensors, {{"head.", "classifier."}}));
}

TEST(WeightNames, MapsTransformersDeit) {
  ModelConfig c = vit_with("distilled");
  c.registers = 0;
  DistinctModel vit(c);
  const NamedTensors tensors = split_tensors(
      rename_tensors(copies_of(vit), kHubNames, "encoder.layer.", kHubBlock), "attn.qkv.", kHubQkv);
  notes_of_loading(vit, with_hub_prefix("deit.", tensors,
                                        {{"head.", "cls_classifier."},
                                         {"head_dist.", "distillation_classifier."}}));
}

TEST(WeightNames, MapsTransformersDinov2) {
  ModelConfig c = vit_with("dinov2");
  c.pos_embed = PosEmbed::kPatch;
  DistinctModel vit(c);
  const NamedTensors plain =
      split_tensors(rename_tensors(copies_of(vit), kHubNames, "encoder.layer.", kHubBlockOfDinov2),
                    "attn.qkv.", kHubQkv);
  for (const char* prefix : {"", "dinov2.", "dinov2_with_registers."}) {
    NamedTensors tensors = with_prefix(prefix, plain);
    tensors.emplace_back(cat(prefix, "embeddings.mask_token"), zeros({1, 64}));
    expect_text(notes_of_loading(vit, tensors), {"mask_token: not used"});
  }
}

TEST(WeightNames, MapsTransformersDinov2Giant) {
  DistinctModel vit(vit_with("giant"));
  std::vector<NamePair> block = kHubBlockOfDinov2;
  block.insert(block.end(), {{"mlp.fc1.", "mlp.weights_in."}, {"mlp.fc2.", "mlp.weights_out."}});
  const auto heads = std::vector<NamePair>{{"head.", "classifier."}};
  const NamedTensors saved = split_tensors(
      rename_tensors(copies_of(vit), kHubNames, "encoder.layer.", block), "attn.qkv.", kHubQkv);
  notes_of_loading(vit, with_hub_prefix("dinov2.", saved, heads));
  // In memory the two halves of the first layer are separate.
  NamedTensors memory = split_tensors(saved, "mlp.weights_in.", {"mlp.gate_proj.", "mlp.up_proj."});
  for (auto& [name, tensor] : memory) {
    const std::size_t at = name.find("weights_out");
    if (at != std::string::npos) name.replace(at, 11, "down_proj");
  }
  notes_of_loading(vit, with_hub_prefix("dinov2.", memory, heads));
}

TEST(WeightNames, MapsTransformersMae) {
  ModelConfig c = vit_with("mae");
  c.fc_norm = false;
  c.num_classes = 0;
  DistinctModel vit(c);
  NamedTensors tensors = with_prefix(
      "vit.", split_tensors(rename_tensors(copies_of(vit), kHubNames, "encoder.layer.", kHubBlock),
                            "attn.qkv.", kHubQkv));
  tensors.emplace_back("decoder.mask_token", zeros({1, 1, 8}));
  tensors.emplace_back("decoder.decoder_embed.weight", zeros({8, 64}));
  expect_text(notes_of_loading(vit, tensors), {"decoder: 2 tensors not used"});
}

TEST(WeightNames, ReportsMissingTransformersTensor) {
  DistinctModel vit(test::deit_vit());
  NamedTensors tensors = split_tensors(
      rename_tensors(copies_of(vit), kHubNames, "encoder.layer.", kHubBlock), "attn.qkv.", kHubQkv);
  const std::string key = "encoder.layer.1.attention.attention.key.weight";
  std::erase_if(tensors, [&](const auto& t) { return t.first == key; });
  expect_text(error_of_loading(vit.config(), tensors), {"blocks.1.attn.qkv.weight", "missing"});
}

// --- torchvision ---------------------------------------------------------------------------------

TEST(WeightNames, MapsTorchvision) {
  DistinctModel vit(test::deit_vit());
  const std::vector<NamePair> beginnings = {{"cls_token", "class_token"},
                                            {"pos_embed", "encoder.pos_embedding"},
                                            {"patch_embed.proj.", "conv_proj."},
                                            {"norm.", "encoder.ln."},
                                            {"head.", "heads.head."}};
  for (const std::array<const char*, 2>& mlp :
       {std::array{"mlp.0.", "mlp.3."}, std::array{"mlp.linear_1.", "mlp.linear_2."}}) {
    const NamedTensors tensors =
        rename_tensors(copies_of(vit), beginnings, "encoder.layers.encoder_layer_",
                       {{"norm1.", "ln_1."},
                        {"norm2.", "ln_2."},
                        {"attn.qkv.", "self_attention.in_proj_"},
                        {"attn.proj.", "self_attention.out_proj."},
                        {"mlp.fc1.", mlp[0]},
                        {"mlp.fc2.", mlp[1]}});
    EXPECT_EQ(notes_of_loading(vit, tensors),
              "tensor names of torchvision's vision transformers\n");
    expect_text(notes_of_loading(vit, with_prefix("module.", tensors)),
                {"removed the prefix 'module.'", "torchvision"});
  }
}

// Resizing, a new head and other adaptations follow the renaming.
TEST(WeightNames, MappedWeightsAreAdapted) {
  ModelConfig small = test::deit_vit(), large = small;
  large.image_size = 25;
  large.num_classes = 11;
  DistinctModel source(small);
  Classifier target(large, 2);
  const NamedTensors tensors = with_hub_prefix(
      "vit.",
      split_tensors(rename_tensors(copies_of(source), kHubNames, "encoder.layer.", kHubBlock),
                    "attn.qkv.", kHubQkv),
      {{"head.", "classifier."}});
  expect_text(joined(load_adapted(target, tensors, "file")),
              {"pos_embed: interpolated from 3 x 3 to 5 x 5", "head.weight: file has 7 classes"});
}

}  // namespace
}  // namespace dtn
