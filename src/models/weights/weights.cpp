#include "dtn/models/weights.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>

#include "core/format.h"
#include "io/fingerprint.h"
#include "kernels/pointwise/pointwise.h"
#include "models/weights/image_channels.h"
#include "models/weights/key_prefixes.h"
#include "models/weights/norm_transfer.h"
#include "models/weights/position_loader.h"

namespace dtn {
namespace {

Tensor converted(const Tensor& from, DType dtype, const std::string& what) {
  if (from.dtype() == dtype) return from;
  if (!is_floating(from.dtype())) {
    throw DataError(cat(what, " is ", name_of(from.dtype()), ", not a floating-point type"));
  }
  Tensor to = Tensor::empty(from.shape(), dtype);
  run(cpu_queue(), Cast{from.dtype(), dtype, from.numel(), from.raw(), to.raw()});
  return to;
}

void copy_into(Tensor value, const std::string& name, const Tensor& from,
               const std::string& source) {
  value.copy_from(
      converted(from, value.dtype(), cat(source, ": tensor ", name)).reshape(value.shape()));
}
void copy_into(Parameter& p, const Tensor& from, const std::string& source) {
  copy_into(p.variable.value(), p.name, from, source);
}

template <class Named>  // a Parameter or a Buffer
[[noreturn]] void fail_shape(const std::string& source, const Named& p, const Tensor& t) {
  throw DataError(cat(source, ": tensor ", p.name, " has shape ", to_string(t.shape()),
                      ", but the model needs ", to_string(p.shape),
                      "; check the model keys of the config against the weights"));
}

// Allowed differences between a file and the model.
struct Adaptation {
  // Returns true if the file may lack a parameter or buffer, which then keeps its value.
  std::function<bool(const std::string&)> may_lack = [](const std::string&) { return false; };
  // Returns true if it sets the parameter from a tensor that does not fit, or leaves the parameter
  // unchanged on purpose.
  std::function<bool(Parameter&, const Tensor&)> adapt = [](Parameter&, const Tensor&) {
    return false;
  };
  std::function<bool(const std::string&)> skip = [](const std::string&) { return false; };
};

// Returns the number of tensors of the file that are copied unchanged.
std::int64_t load(ParameterStore& store, const NamedTensors& tensors, const std::string& source,
                  const Adaptation& adaptation) {
  std::int64_t taken = 0;
  std::map<std::string, const Tensor*> left;
  for (const auto& [name, tensor] : tensors) left[name] = &tensor;
  auto take = [&](const auto& named) -> const Tensor& {
    auto found = left.find(named.name);
    if (found == left.end()) {
      throw DataError(cat(source, ": tensor ", named.name, " ", to_string(named.shape),
                          " is missing; the weights belong to another model"));
    }
    const Tensor& t = *found->second;
    left.erase(found);
    return t;
  };
  for (Parameter& p : store.parameters()) {
    if (!left.contains(p.name) && adaptation.may_lack(p.name)) continue;
    const Tensor& t = take(p);
    if (adaptation.adapt(p, t)) continue;
    if (!(t.shape() == p.shape)) fail_shape(source, p, t);
    copy_into(p, t, source);
    ++taken;
  }
  for (const Buffer& b : store.buffers()) {
    if (!left.contains(b.name) && adaptation.may_lack(b.name)) continue;
    const Tensor& t = take(b);
    if (!(t.shape() == b.shape)) fail_shape(source, b, t);
    copy_into(b.value, b.name, t, source);
    ++taken;
  }
  store.restart_buffers();
  for (const auto& [name, tensor] : left) {
    if (!adaptation.skip(name)) {
      throw DataError(cat(source, ": tensor ", name, " ", to_string(tensor->shape()),
                          " has no place in the model; the weights belong to another one"));
    }
  }
  store.refresh_bfloat16();
  return taken;
}

// Returns the module of a parameter: head for head.weight.
std::string module_of(const std::string& name) { return name.substr(0, name.rfind('.')); }

// Adapts the weights of a somewhat different model, and collects notes about the changes.
class Adapter {
 public:
  Adapter(const Classifier& model, const NamedTensors& tensors, const std::string& source,
          const GridKeys& origin, const HeadOptions& head)
      : model_(model),
        config_(model.config()),
        head_(head),
        name_maps_(model.family().weights),
        tensors_(in_names_of(model, tensors, source, notes_)),
        source_(source),
        norms_(tensors_, model.parameters()),
        positions_(model, origin, tensors_, source) {
    check_distilled();
    join_class_position();
    if (const std::string note = norms_.note(source); !note.empty()) notes_.push_back(note);
  }

  const NamedTensors& tensors() const { return tensors_; }
  std::vector<std::string> notes() const {
    std::vector<std::string> all = notes_;
    std::ranges::move(positions_.notes(), std::back_inserter(all));
    return all;
  }

  // Returns true for a head if the file has no part of it, for the norm after the pooling if the
  // file has a norm before it, for a normalizer's parameters that LayerNorm does not have, and for
  // positions that a formula gives.
  bool may_lack(const std::string& name) {
    if (norms_.leaves(name) || is_computed(name)) return true;
    const std::string module = module_of(name);
    const bool other_norm = module == "fc_norm" && has_module("norm");
    if (!(is_head(name) || other_norm) || has_module(module)) return false;
    if (is_head(name) && head_.must_fit) fail_without_head(name);
    notes_.push_back(cat(name, ": not in ", source_, "; left at its initialisation"));
    return true;
  }

  bool adapt(Parameter& p, const Tensor& t) {
    if (norms_.leaves(p.name)) return true;
    if (take_class_rows(p, t)) return true;
    if (p.positions && take_positions(p, t)) return true;
    if (t.shape() == p.shape) return false;
    if (p.name == "patch_embed.proj.weight" && t.rank() == 4 && t.dim(3) != p.shape[3]) {
      throw DataError(cat(source_, ": its patches are ", t.dim(3),
                          " pixels wide, but the model's are ", p.shape[3],
                          "; set model.patch_size: ", t.dim(3)));
    }
    if (take_channels(p, t)) return true;
    Shape resized = p.shape;
    if (t.rank() > 0) resized[0] = t.dim(0);
    if (!is_head(p.name) || t.shape() != resized) return false;
    if (head_.must_fit) fail_other_head(t.dim(0));
    notes_.push_back(cat(p.name, ": ", source_, " has ", t.dim(0), " classes, but the model has ",
                         p.shape[0], "; left at its initialisation"));
    return true;
  }

  bool skip(const std::string& name) {
    if (norms_.skips(name)) return true;
    if (name.ends_with(".num_batches_tracked")) return true;  // PyTorch's BatchNorm counts; unused
    if (name_maps_.skips && name_maps_.skips(name)) return true;
    if (name.starts_with("pre_logits.")) return true;  // of a head that timm has removed
    const char* why = nullptr;
    if (name == "mask_token") why = "it belongs to DINOv2's training";
    if (name == "cls_token" && !config_.has_class_token()) why = "the model pools by the mean";
    if (name.starts_with("head_dist.")) why = "model.distilled is false";
    if (is_head(name) && config_.num_classes == 0) why = head_.why_unused;
    if (module_of(name) == "norm" && config_.fc_norm) why = "model.fc_norm replaces it";
    if (why) notes_.push_back(cat(name, ": not used, ", why));
    return why != nullptr;
  }

 private:
  // Returns true for fixed positions, whose initial values are the values.
  bool is_computed(const std::string& name) const {
    return std::ranges::any_of(model_.parameters().parameters(), [&](const Parameter& p) {
      return p.name == name && p.positions && p.positions->kind == PositionKind::kSines;
    });
  }
  Tensor* find(const std::string& name) {
    for (auto& [key, tensor] : tensors_) {
      if (key == name) return &tensor;
    }
    return nullptr;
  }
  bool take_positions(Parameter& p, const Tensor& t) {
    const Tensor table = converted(t, DType::kFloat32, cat(source_, ": tensor ", p.name));
    const Tensor fitting = positions_.fitted(p, table);
    if (fitting.defined()) copy_into(p, fitting, source_);
    return fitting.defined();
  }
  // Converts the convolution that reads the image, which is the first of the model.
  bool take_channels(Parameter& p, const Tensor& t) {
    const auto& all = model_.parameters().parameters();
    const auto first = std::ranges::find(all, 4, [](const Parameter& q) { return q.shape.rank(); });
    if (first == all.end() || first->name != p.name || t.rank() != 4) return false;
    const std::int64_t from = t.dim(1), to = p.shape[1];
    Shape converted_shape = t.shape();
    converted_shape[1] = to;
    if ((from != 1 && from != 3) || converted_shape != p.shape) return false;
    const Tensor weight = converted(t, DType::kFloat32, cat(source_, ": tensor ", p.name));
    copy_into(p, with_channels(weight, to), source_);
    notes_.push_back(
        cat(p.name, ": ", from, from == 1 ? " image channel in " : " image channels in ", source_,
            ", ", to, " in the model; ",
            to == 1 ? "their weights are summed" : "its weights are repeated and scaled"));
    return true;
  }
  // Copies the rows that the options give for the classes of the model.
  bool take_class_rows(Parameter& p, const Tensor& t) {
    if (!head_.rows || !model_.has_class_rows(p.name) || t.rank() == 0) return false;
    Shape resized = p.shape;
    resized[0] = t.dim(0);
    if (t.shape() != resized) return false;
    const std::vector<std::int64_t> rows = head_.rows(t.dim(0));
    if (rows.empty()) return false;
    const Tensor from = converted(t, DType::kFloat32, cat(source_, ": tensor ", p.name));
    Tensor taken = Tensor::empty(p.shape, DType::kFloat32);
    DTN_CHECK(static_cast<std::int64_t>(rows.size()) == p.shape[0],
              "the head needs one row per class");
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const auto to = static_cast<std::int64_t>(i);
      taken.slice(to, to + 1).copy_from(from.slice(rows[i], rows[i] + 1));
    }
    copy_into(p, taken, source_);
    const bool in_order = t.shape() == p.shape && std::ranges::is_sorted(rows);
    if (!in_order) {
      notes_.push_back(cat(p.name, ": its ", p.shape[0],
                           " rows are matched by class name with the ", t.dim(0), " in ", source_));
    }
    return true;
  }
  [[noreturn]] void fail_without_head(const std::string& name) const {
    throw DataError(cat(
        source_, ": has no ", name, "; the model has a head for ", config_.num_classes,
        " classes, whose weights would be random. Use weights with a head, train one (dtn-train "
        "with model.init_weights), or set model.num_classes: 0 for the features only"));
  }
  [[noreturn]] void fail_other_head(std::int64_t classes) const {
    throw DataError(cat(source_, ": its head has ", classes,
                        " classes, but the config's model.num_classes is ", config_.num_classes,
                        ", for which the head's weights would be random; set model.num_classes: ",
                        classes, ", or train a head for ", config_.num_classes,
                        " classes (dtn-train with model.init_weights)"));
  }
  bool has_module(const std::string& module) const {
    return std::ranges::any_of(tensors_,
                               [&](const auto& t) { return module_of(t.first) == module; });
  }

  // Called before all else, because the positions of a distilled model would not fit either.
  void check_distilled() const {
    if (config_.distilled) return;
    for (const auto& [name, tensor] : tensors_) {
      if (name != "dist_token" && module_of(name) != "head_dist") continue;
      throw DataError(
          cat(source_, ": ", name, " belongs to a distilled model; set model.distilled: true"));
    }
  }

  // Adds the file's position of the class token to the token itself, if the model has positions for
  // the patches only and its class token joins before the first block. The results are the same.
  void join_class_position() {
    const bool joins_first = config_.family == "vit" && config_.pos_embed == PosEmbed::kPatch &&
                             config_.class_token_at == 0;
    Tensor *positions = find("pos_embed"), *token = find("cls_token");
    if (!config_.has_class_token() || !joins_first || !positions || !token) return;
    const std::int64_t width = config_.embed_dim;
    if (positions->rank() != 3 || positions->dim(2) != width || token->numel() != width) return;
    const std::int64_t rows = positions->dim(1);
    if (!positions_.has_class_row(rows)) return;
    const Tensor table = converted(*positions, DType::kFloat32, source_).reshape({rows, width});
    Tensor sum = converted(*token, DType::kFloat32, source_).clone();
    for (std::int64_t c = 0; c < width; ++c) sum.data<float>()[c] += table.data<float>()[c];
    *token = sum;
    *positions = table.slice(1, rows).reshape({1, rows - 1, width});
    notes_.push_back(cat("cls_token: its position in ", source_, " is added to it"));
  }

  // Also true for heads that this model does not have.
  bool is_head(const std::string& name) const {
    const std::string part = name.substr(0, name.find('.'));
    return model_.is_head(name) || part == "head" || part == "head_dist" || part == "fc";
  }

  const Classifier& model_;
  const ModelConfig& config_;
  const HeadOptions& head_;
  const WeightNameMaps& name_maps_;
  std::vector<std::string> notes_;
  NamedTensors tensors_;
  const std::string& source_;
  const NormTransfer norms_;
  PositionLoader positions_;
};

}  // namespace

NamedTensors named_values(ParameterStore& store) {
  return named_weights(store, store.values().to(kCpu));
}

NamedTensors named_weights(const ParameterStore& store, const Tensor& flat) {
  NamedTensors result = named_views(store, flat);
  for (const Buffer& b : store.buffers()) {
    result.emplace_back(b.name, ParameterStore::view(flat, b));
  }
  return result;
}

NamedTensors named_views(const ParameterStore& store, const Tensor& flat,
                         const std::string& prefix) {
  NamedTensors result;
  for (const Parameter& p : store.parameters()) {
    result.emplace_back(prefix + p.name, ParameterStore::view(flat, p));
  }
  return result;
}

void load_exact(ParameterStore& store, const NamedTensors& tensors, const std::string& source) {
  load(store, tensors, source, {});
}

namespace {

struct Adapted {
  std::int64_t taken;   // tensors copied unchanged
  std::size_t tensors;  // all tensors, under the model's names
  std::vector<std::string> notes;
};

Adapted adapt(Classifier& model, const NamedTensors& tensors, const std::string& source,
              const GridKeys& origin, const HeadOptions& head) {
  Adapter adapter(model, tensors, source, origin, head);
  const std::int64_t taken =
      load(model.parameters(), adapter.tensors(), source,
           {.may_lack = [&](const std::string& name) { return adapter.may_lack(name); },
            .adapt = [&](Parameter& p, const Tensor& t) { return adapter.adapt(p, t); },
            .skip = [&](const std::string& name) { return adapter.skip(name); }});
  return {taken, adapter.tensors().size(), adapter.notes()};
}

}  // namespace

std::vector<std::string> load_adapted(Classifier& model, const NamedTensors& tensors,
                                      const std::string& source, const GridKeys& origin,
                                      const HeadOptions& head) {
  return adapt(model, tensors, source, origin, head).notes;
}

GridKeys origin_of(const TensorFile& file, const PresetRegistry& presets) {
  const auto config = file.metadata.find("config");
  if (config == file.metadata.end()) return {};
  return grid_keys_of(config->second, {presets.begin(), presets.end()});
}

std::string fingerprint_of(const NamedTensors& weights) {
  Fingerprint print;
  for (const auto& [name, tensor] : weights) {
    print.add(name);
    print.add(dtn::name_of(tensor.dtype()));
    for (std::int64_t size : tensor.shape().dims()) print.add(size);
    print.add(std::span(static_cast<const std::byte*>(tensor.raw()), tensor.nbytes()));
  }
  return print.text();
}

std::vector<std::string> load_weights(Classifier& model, const std::filesystem::path& path,
                                      const HeadOptions& head, const PresetRegistry& presets) {
  return load_weights(model, read_safetensors(path), path.string(), head, presets);
}

std::vector<std::string> load_weights(Classifier& model, const TensorFile& file,
                                      const std::string& source, const HeadOptions& head,
                                      const PresetRegistry& presets) {
  Adapted adapted = adapt(model, file.tensors, source, origin_of(file, presets), head);
  if (!adapted.notes.empty()) {
    adapted.notes.push_back(
        cat(adapted.taken, " of ", counted(adapted.tensors, "tensors"), " loaded unchanged"));
  }
  return adapted.notes;
}

}  // namespace dtn
