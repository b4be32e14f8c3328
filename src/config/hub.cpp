#include "config/hub.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "config/codec.h"
#include "config/presets.h"

namespace dtn::config {
namespace {

using Json = nlohmann::json;

// A value of the file and its position: "model_args.depth".
struct Entry {
  const Json* value = nullptr;
  std::string field;

  explicit operator bool() const { return value != nullptr && !value->is_null(); }
};

// timm model arguments, and the corresponding keys of `model`.
constexpr std::pair<const char*, const char*> kArguments[] = {
    {"in_chans", "channels"},    {"embed_dim", "embed_dim"},     {"depth", "depth"},
    {"num_heads", "num_heads"},  {"mlp_ratio", "mlp_ratio"},     {"qkv_bias", "qkv_bias"},
    {"qk_norm", "qk_norm"},      {"init_values", "layer_scale"}, {"class_token", "class_token"},
    {"reg_tokens", "registers"}, {"pre_norm", "norm_pre"},       {"act_layer", "act"},
};
// Arguments without effect on an evaluated model, and arguments that other functions read.
constexpr const char* kOtherArguments[] = {
    "drop_rate",       "pos_drop_rate", "patch_drop_rate", "proj_drop_rate",   "attn_drop_rate",
    "drop_path_rate",  "weight_init",   "fix_init",        "dynamic_img_size", "dynamic_img_pad",
    "strict_img_size", "img_size",      "patch_size",      "num_classes",      "global_pool",
    "fc_norm",         "no_embed_class"};

class HubConfig {
 public:
  HubConfig(const std::string& text, const std::string& file, const ConfigSchemas& schemas)
      : file_(file), json_(parsed(text)), schemas_(schemas) {}

  Node layer() {
    const PublicModel model = public_model();
    Node root = parse_yaml(config_text(model), where(""));
    set(root, "model.num_classes", first({"model_args", "num_classes"}, {"", "num_classes"}));
    set_sizes(root);
    set_pool(root, model.preset->model.pool);
    for (const auto& [theirs, ours] : kArguments) {
      set(root, cat("model.", ours), at("model_args", theirs));
    }
    set(root, "model.fc_norm", at("model_args", "fc_norm"));
    if (const Entry e = at("model_args", "no_embed_class")) {
      set_text(root, "model.pos_embed", flag(e) ? "patch" : "all", e.field);
    }
    for (const char* key : {"mean", "std", "crop_pct", "interpolation"}) {
      set(root, cat("data.", key), at("pretrained_cfg", key));
    }
    check_arguments();
    return root;
  }

 private:
  template <class... Args>
  [[noreturn]] void refuse(const std::string& field, const Args&... args) const {
    config::fail(where(field), args...);
  }
  Where where(const std::string& field) const {
    const std::string source = field.empty() ? file_ : cat(file_, " (", shown(field), ")");
    return {std::make_shared<const std::string>(source), 0, 0, 0};
  }

  Json parsed(const std::string& text) const {
    if (text.size() > kMaxHubConfig) refuse("", "more than ", kMaxHubConfig >> 20, " MiB of JSON");
    try {
      Json json = Json::parse(text);
      if (json.is_object()) return json;
    } catch (const Json::parse_error& e) {
      const auto end = text.begin() + static_cast<std::ptrdiff_t>(std::min(e.byte, text.size()));
      refuse("", "no valid JSON, line ", 1 + std::count(text.begin(), end, '\n'));
    } catch (const Json::exception&) {
      refuse("", "no valid JSON: a number is too large");
    }
    refuse("", "a model's config is a JSON object");
  }

  // In old files, the parts of pretrained_cfg are at the top level.
  const Json& section(const char* name) const {
    static const Json nothing = Json::object();
    const auto found = json_.find(name);
    if (found != json_.end() && !found->is_null()) {
      if (!found->is_object()) refuse(name, "must be an object");
      return *found;
    }
    return std::string_view(name) == "pretrained_cfg" ? json_ : nothing;
  }

  Entry at(const char* of, const char* key) const {
    const bool top = *of == '\0' || &section(of) == &json_;
    const Json& object = *of == '\0' ? json_ : section(of);
    const auto found = object.find(key);
    return {found == object.end() ? nullptr : &*found, top ? key : cat(of, ".", key)};
  }

  // Returns the first entry that exists. As in timm, the order is a, b, pretrained_cfg.
  Entry first(std::pair<const char*, const char*> a, std::pair<const char*, const char*> b) const {
    if (Entry e = at(a.first, a.second)) return e;
    if (Entry e = at(b.first, b.second)) return e;
    return at("pretrained_cfg", b.second);
  }

  const std::string& text(const Entry& e) const {
    if (!e.value->is_string()) refuse(e.field, "must be a text");
    return e.value->get_ref<const std::string&>();
  }
  bool flag(const Entry& e) const {
    if (!e.value->is_boolean()) refuse(e.field, "must be true or false");
    return e.value->get<bool>();
  }

  PublicModel public_model() const {
    const Entry architecture = at("", "architecture");
    if (!architecture) refuse("", "names no `architecture`, so it is no config.json of timm's");
    const std::string& name = text(architecture);
    if (const std::string reason = reason_against(name, schemas_); !reason.empty()) {
      refuse(architecture.field, reason);
    }
    if (const Entry tag = at("pretrained_cfg", "tag")) {
      if (const auto found = find_public_model(cat(name, ".", text(tag)), schemas_)) return *found;
    }
    if (const auto found = find_public_model(name, schemas_)) return *found;
    refuse(architecture.field, "no network '", shown(name), "' is known",
           did_you_mean(name, public_names(schemas_), "."), " dtn-info --models lists all");
  }

  // Returns a number; a pair must hold the same number twice.
  std::optional<Json> side(const Entry& e, std::size_t skipped = 0) const {
    if (!e) return {};
    if (!e.value->is_array()) return *e.value;
    const Json& list = *e.value;
    if (list.size() != skipped + 2 || list[skipped] != list[skipped + 1]) {
      refuse(e.field, "must be a square, not ", shown(list.dump()));
    }
    return list[skipped];
  }

  void set_sizes(Node& root) const {
    const Entry input = at("pretrained_cfg", "input_size");
    if (const auto size = side(input, 1)) {
      if (!input.value->is_array()) refuse(input.field, "must be [channels, height, width]");
      set_json(root, "model.channels", (*input.value)[0], input.field);
      set_json(root, "model.image_size", *size, input.field);
    }
    for (const char* key : {"img_size", "patch_size"}) {
      const Entry e = at("model_args", key);
      const bool image = std::string_view(key) == "img_size";
      if (const auto size = side(e)) {
        set_json(root, image ? "model.image_size" : "model.patch_size", *size, e.field);
      }
    }
  }

  // For mean pooling beside a class token, the default norm comes after the pooling.
  void set_pool(Node& root, Pooling usual) const {
    const Entry e = first({"model_args", "global_pool"}, {"", "global_pool"});
    if (!e) return;
    const std::string& pool = text(e);
    if (pool != "token" && pool != "avg") {
      refuse(e.field, "'", shown(pool), "' is no pooling of ours; `token` and `avg` are");
    }
    const bool mean = pool == "avg";
    if (mean == (usual == Pooling::kMean)) return;
    set_text(root, "model.pool", mean ? "mean" : "cls", e.field);
    if (mean) set_text(root, "model.class_token", "true", e.field);
    set_text(root, "model.fc_norm", mean ? "true" : "false", e.field);
  }

  void check_arguments() const {
    for (const auto& [name, value] : section("model_args").items()) {
      const auto is_it = [&name = name](const auto& argument) { return name == argument.first; };
      if (std::ranges::any_of(kArguments, is_it)) continue;
      if (std::ranges::find(kOtherArguments, name) != std::end(kOtherArguments)) continue;
      refuse(cat("model_args.", name), "is an argument of timm's that no key of ours stands for");
    }
  }

  void set(Node& root, const std::string& path, const Entry& e) const {
    if (e) set_json(root, path, *e.value, e.field);
  }
  void set_text(Node& root, const std::string& path, const char* text,
                const std::string& field) const {
    set_json(root, path, Json(text), field, false);
  }
  void set_json(Node& root, const std::string& path, const Json& value, const std::string& field,
                bool quoted = true) const {
    Node map = make_map(where(field));
    map.members.push_back({leaf_of(path), where(field), node_of(value, field, quoted)});
    Node above = make_map(where(field));
    above.members.push_back({section_of(path), where(field), std::move(map)});
    merge(root, std::move(above));
  }

  Node node_of(const Json& value, const std::string& field, bool quoted) const {
    Node node;
    node.where = where(field);
    if (value.is_array()) {
      node.kind = Node::Kind::kList;
      for (const Json& item : value) {
        if (item.is_structured()) refuse(field, "must be a list of numbers");
        node.items.push_back(node_of(item, field, quoted));
      }
      return node;
    }
    if (value.is_object() || value.is_null()) refuse(field, "must be a number or a text");
    node.kind = Node::Kind::kScalar;
    node.quoted = value.is_string() && quoted;
    node.text = value.is_string()         ? value.get<std::string>()
                : value.is_number_float() ? number_text(value.get<double>())
                                          : value.dump();
    return node;
  }

  std::string file_;
  Json json_;
  const ConfigSchemas& schemas_;
};

}  // namespace

bool is_hub_config(const std::filesystem::path& file) { return file.filename() == kHubConfig; }

Node parse_hub_config(const std::string& text, const std::string& file,
                      const ConfigSchemas& schemas) {
  return HubConfig(text, file, schemas).layer();
}

Node read_hub_config(const std::filesystem::path& file, const ConfigSchemas& schemas) {
  std::ifstream in(file, std::ios::binary);
  if (!in) throw ConfigError(cat(file.string(), ": cannot open the file"));
  std::string text(kMaxHubConfig + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(in.gcount()));
  return parse_hub_config(text, file.string(), schemas);
}

}  // namespace dtn::config
