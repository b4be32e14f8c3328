#include <algorithm>
#include <cstring>
#include <map>

#include "core/format.h"
#include "models/weights/name_maps.h"
#include "models/weights/renaming.h"

namespace dtn {
namespace {

constexpr std::string_view kPatchWeight = "embeddings.patch_embeddings.projection.weight";
// Prefixes of models with a head. Models without a head have no prefix.
constexpr std::string_view kModelPrefixes[] = {"", "vit.", "deit.", "dinov2.",
                                               "dinov2_with_registers."};
constexpr Renaming kOfModel[] = {
    {"embeddings.cls_token", "cls_token"},
    {"embeddings.distillation_token", "dist_token"},
    {"embeddings.register_tokens", "reg_token"},
    {"embeddings.mask_token", "mask_token"},
    {"embeddings.position_embeddings", "pos_embed"},
    {"embeddings.patch_embeddings.projection.", "patch_embed.proj."},
    {"layernorm.", "norm."},
};
constexpr Renaming kHeads[] = {
    {"classifier.", "head."},
    {"cls_classifier.", "head."},
    {"distillation_classifier.", "head_dist."},
};
// Names before a block's number: in files, and in memory since transformers 5.
constexpr std::string_view kLayers[] = {"encoder.layer.", "layers."};
constexpr Renaming kOfBlock[] = {
    {"layernorm_before.", "norm1."},
    {"layernorm_after.", "norm2."},
    {"attention.output.dense.", "attn.proj."},
    {"attention.o_proj.", "attn.proj."},
    {"intermediate.dense.", "mlp.fc1."},
    {"output.dense.", "mlp.fc2."},
    {"mlp.weights_in.", "mlp.fc1."},
    {"mlp.weights_out.", "mlp.fc2."},
    {"mlp.down_proj.", "mlp.fc2."},
    {"layer_scale1.lambda1", "ls1.gamma"},
    {"layer_scale2.lambda1", "ls2.gamma"},
};

// A tensor that is a part of the rows of a larger tensor in timm.
struct HubPart {
  std::string_view theirs, ours;
  std::size_t place, parts;
};
constexpr HubPart kHubParts[] = {
    {"attention.attention.query.", "attn.qkv.", 0, 3},
    {"attention.attention.key.", "attn.qkv.", 1, 3},
    {"attention.attention.value.", "attn.qkv.", 2, 3},
    {"attention.q_proj.", "attn.qkv.", 0, 3},
    {"attention.k_proj.", "attn.qkv.", 1, 3},
    {"attention.v_proj.", "attn.qkv.", 2, 3},
    {"mlp.gate_proj.", "mlp.fc1.", 0, 2},
    {"mlp.up_proj.", "mlp.fc1.", 1, 2},
};

std::optional<std::string_view> find_model_prefix(const NamedTensors& tensors) {
  for (const std::string_view prefix : kModelPrefixes) {
    const std::string wanted = cat(prefix, kPatchWeight);
    if (std::ranges::any_of(tensors, [&](const auto& t) { return t.first == wanted; })) {
      return prefix;
    }
  }
  return {};
}

std::optional<InBlock> find_layer(std::string_view name) {
  for (const std::string_view layers : kLayers) {
    if (const auto found = find_block(name, layers)) return found;
  }
  return {};
}

// Joins the rows of several tensors. Undefined if their types or row shapes differ.
Tensor join_rows(std::span<const Tensor> parts) {
  if (!parts[0].defined()) return {};
  std::vector<std::int64_t> dims(parts[0].shape().dims().begin(), parts[0].shape().dims().end());
  if (dims.empty()) return {};
  dims[0] = 0;
  for (const Tensor& part : parts) {
    const bool same_rows =
        part.defined() && part.rank() == parts[0].rank() && part.dtype() == parts[0].dtype() &&
        std::equal(dims.begin() + 1, dims.end(), part.shape().dims().begin() + 1);
    if (!same_rows) return {};
    dims[0] += part.dim(0);
  }
  Tensor joined = Tensor::empty(Shape(dims), parts[0].dtype());
  auto* to = static_cast<std::byte*>(joined.raw());
  for (const Tensor& part : parts) {
    if (part.nbytes() > 0) std::memcpy(to, part.raw(), part.nbytes());
    to += part.nbytes();
  }
  return joined;
}

class HubTranslation {
 public:
  explicit HubTranslation(std::string_view prefix) : prefix_(prefix) {}

  void add(const std::string& name, const Tensor& tensor) {
    if (name.starts_with("decoder.")) {
      ++decoder_;
      return;
    }
    if (!name.starts_with(prefix_)) {
      result_.emplace_back(replace_beginning(name, kHeads), tensor);
      return;
    }
    const std::string_view inner = std::string_view(name).substr(prefix_.size());
    if (inner.starts_with("pooler.")) {
      ++pooler_;
    } else if (const auto block = find_layer(inner)) {
      add_of_block(*block, name, tensor);
    } else {
      std::string ours = replace_beginning(inner, kOfModel);
      if (prefix_.empty()) ours = replace_beginning(ours, kHeads);
      result_.emplace_back(std::move(ours), tensor);
    }
  }

  NamedTensors take(std::vector<std::string>& notes) {
    for (const auto& [ours, parts] : parts_) {
      if (Tensor joined = join_rows(parts.tensors); joined.defined()) {
        result_.emplace_back(ours, joined);
        continue;
      }
      for (std::size_t i = 0; i < parts.tensors.size(); ++i) {  // the loading error names them
        if (parts.tensors[i].defined()) result_.emplace_back(parts.names[i], parts.tensors[i]);
      }
    }
    notes.emplace_back(
        "tensor names of Hugging Face's transformers: query, key and value of each block are "
        "joined");
    if (pooler_ > 0) {
      notes.push_back(cat(prefix_, "pooler: ", counted(pooler_, "tensors"),
                          " not used, as no head reads the pooler"));
    }
    if (decoder_ > 0) {
      notes.push_back(cat("decoder: ", counted(decoder_, "tensors"),
                          " not used, as the decoder only rebuilds masked patches"));
    }
    return std::move(result_);
  }

 private:
  struct Parts {
    std::vector<Tensor> tensors;
    std::vector<std::string> names;
  };

  void add_of_block(const InBlock& in, const std::string& name, const Tensor& tensor) {
    for (const HubPart& part : kHubParts) {
      if (!in.rest.starts_with(part.theirs)) continue;
      Parts& parts = parts_[cat(in.block, part.ours, in.rest.substr(part.theirs.size()))];
      parts.tensors.resize(part.parts);
      parts.names.resize(part.parts);
      parts.tensors[part.place] = tensor;
      parts.names[part.place] = name;
      return;
    }
    result_.emplace_back(in.block + replace_beginning(in.rest, kOfBlock), tensor);
  }

  std::string_view prefix_;
  NamedTensors result_;
  std::map<std::string, Parts> parts_;  // by the name of the joined tensor
  int pooler_ = 0, decoder_ = 0;        // tensors left out
};

}  // namespace

bool has_huggingface_names(const NamedTensors& tensors) {
  return find_model_prefix(tensors).has_value();
}

NamedTensors huggingface_in_timm_names(const NamedTensors& tensors,
                                       std::vector<std::string>& notes) {
  HubTranslation translation(find_model_prefix(tensors).value());
  for (const auto& [name, tensor] : tensors) translation.add(name, tensor);
  return translation.take(notes);
}

}  // namespace dtn
