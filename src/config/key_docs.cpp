#include "config/key_docs.h"

#include <algorithm>
#include <optional>

#include "config/choices.h"
#include "config/keys.h"
#include "config/presets.h"
#include "dtn/config/load.h"

namespace dtn::config {
namespace {

constexpr const char* kUnset = "unset";

// The default of data.resample depends on the origin of the config, which no key describes.
std::string resample_default(const Key& key) {
  ExperimentConfig config;
  const std::string usual = key.write(config);
  config.data.resample = Resample::kPillow12;
  return cat(usual, " (run or checkpoint that lacks the key: ", key.write(config), ")");
}

std::string or_unset(const std::string& value) { return value == "null" ? kUnset : value; }

// A choice that may change the defaults of other keys.
struct Variant {
  std::string name;
  ExperimentConfig config;
};

// Returns the default of a key under the first variant, and the variants where it differs.
std::string default_over(const Key& key, const std::vector<Variant>& variants) {
  const std::string usual = or_unset(key.write(variants.front().config));
  std::string others;
  for (const Variant& v : variants) {
    const std::string value = or_unset(key.write(v.config));
    if (value != usual) others += cat(others.empty() ? "" : ", ", v.name, " ", value);
  }
  return others.empty() ? usual : cat(usual, " (", others, ")");
}

class Documenter {
 public:
  explicit Documenter(const ConfigSchemas& schemas)
      : schemas_(schemas), choices_(config::choices_of(schemas)) {
    for (const std::string& name : plain_presets(schemas)) {
      const std::string task = task_of_preset(name);
      if (!task.empty() && !has_task(task)) continue;  // no config can choose the preset
      // Tensors suit the data of every task that has families of its own.
      const std::string text =
          cat(task.empty() ? "" : cat("task: ", task, "\ndata: {dataset: tensors}\n"),
              "model: {preset: ", name, "}");
      presets_.push_back({name, parse_experiment(text, "default", {}, schemas)});
      presets_.back().config.data.dataset = DataConfig().dataset;
      // parse_experiment() assumes a checkpoint; the documentation is for new configs.
      presets_.back().config.data.resample = DataConfig().resample;
    }
  }

  std::vector<KeyDoc> all() const {
    std::vector<KeyDoc> docs;
    for (const Key& key : keys()) {
      docs.push_back(of(key));
      if (key.path == last_norm_key(kNormSection)) add_norm_options(docs);
    }
    return docs;
  }

 private:
  // The only task of a preset's family; empty: any.
  std::string task_of_preset(const std::string& name) const {
    const auto preset = std::ranges::find(schemas_.presets, name, &PresetSchema::name);
    const auto family =
        std::ranges::find(schemas_.models, preset->model.family, &ModelSchema::family);
    return family == schemas_.models.end() ? "" : family->task;
  }
  bool has_task(const std::string& name) const {
    return std::ranges::find(schemas_.tasks, name, &TaskSchema::name) != schemas_.tasks.end();
  }

  KeyDoc of(const Key& key) const {
    KeyDoc doc;
    doc.path = key.path;
    doc.meaning = key.doc;
    doc.choices = choices_of(key);
    doc.allowed = allowed(key, doc.choices);
    doc.default_value = default_of(key);
    doc.example = example_of(key, doc.choices);
    doc.read_by = readers_of(key.path);
    return doc;
  }

  std::vector<std::string> choices_of(const Key& key) const {
    std::vector<std::string> out = key.choices;
    const auto add = [&](const auto& entries) {
      for (const auto& entry : entries) out.push_back(entry.name);
    };
    if (key.path == "augment.policy") {
      add(schemas_.policies);
    } else if (key.path == "model.preset") {  // its choice is that of a family
      add(presets_);
    } else if (const auto choice = std::ranges::find(choices_, key.path, &Choice::key);
               choice != choices_.end()) {
      add(choice->entries);
    }
    return out;
  }

  static std::string allowed(const Key& key, const std::vector<std::string>& choices) {
    constexpr std::size_t kMaxPresets = 16;
    if (key.path == "augment.policy") return cat("text that begins with ", join(choices, " or "));
    if (key.path == "model.preset" && choices.size() > kMaxPresets) {
      return "one of those that dtn-info --presets lists";
    }
    if (!choices.empty()) return cat("one of ", join(choices));
    if (key.type == "true or false" || key.type == "text") return key.type;
    constexpr double kNoLimit = 1e12;  // the limit of counts; not shown
    Range range = key.range;
    if (range.high >= kNoLimit) range.high = std::numeric_limits<double>::infinity();
    const std::string limits = describe(range);
    return limits.empty() ? key.type : cat(key.type, " ", limits);
  }

  // Returns the default of a key, which may depend on the model's or augmentation's preset, or on
  // the optimizer.
  std::string default_of(const Key& key) const {
    if (key.path == "model.preset") return "none, it must be set";
    if (key.path == "data.resample") return resample_default(key);
    if (key.path.starts_with("augment.")) return default_over(key, augmentations());
    if (key.path.starts_with("optim.")) {
      return default_over(key,
                          variants(key.path, schemas_.optimizers,
                                   [](ExperimentConfig& c) -> OptimConfig& { return c.optim; }));
    }
    if (key.path.starts_with("schedule.")) {
      return default_over(
          key, variants(key.path, schemas_.schedules,
                        [](ExperimentConfig& c) -> ScheduleConfig& { return c.schedule; }));
    }
    const std::string value = key.write(presets_.front().config);
    for (const Variant& v : presets_) {
      if (key.write(v.config) != value) return "the preset's";
    }
    return or_unset(value);
  }

  std::vector<Variant> augmentations() const {
    std::vector<Variant> out;
    const auto key = std::ranges::find(keys(), "augment.preset", &Key::path);
    for (std::size_t i = 0; i < key->choices.size(); ++i) {
      Variant v{key->choices[i], presets_.front().config};
      v.config.augment = augment_preset(static_cast<AugmentPreset>(i));
      // The key augment.preset itself has a single default.
      v.config.augment.preset = presets_.front().config.augment.preset;
      out.push_back(std::move(v));
    }
    return out;
  }

  // Returns the optimizers or schedules that read the key, with their defaults in `section`.
  template <class Schema, class Section>
  std::vector<Variant> variants(const std::string& path, const std::vector<Schema>& schemas,
                                const Section& section) const {
    std::vector<Variant> out;
    const std::vector<std::string> readers = readers_of(path);
    for (const Schema& schema : schemas) {
      if (!readers.empty() && std::ranges::count(readers, schema.name) == 0) continue;
      Variant v{schema.name, presets_.front().config};
      if (schema.defaults) schema.defaults(section(v.config));
      out.push_back(std::move(v));
    }
    if (out.empty()) out.push_back(presets_.front());
    return out;
  }

  // Returns an instructive example: if the key has few values, one other than the default.
  std::string example_of(const Key& key, const std::vector<std::string>& choices) const {
    if (!key.example.empty()) return key.example;
    std::string value = key.write(presets_.front().config);
    if (value == "true") return "false";
    if (value == "false") return "true";
    for (const std::string& choice : choices) {
      if (choice != value) return choice;
    }
    return value;
  }

  // Returns the entries that read the key; empty: all.
  std::vector<std::string> readers_of(const std::string& path) const {
    for (const Choice& choice : choices_) {
      std::vector<std::string> readers = choice.readers_of(path);
      if (!readers.empty() && readers.size() < choice.entries.size()) return readers;
    }
    return {};
  }

  void add_norm_options(std::vector<KeyDoc>& docs) const {
    const std::size_t first = docs.size();
    for (const NormSchema& norm : schemas_.norms) {
      for (const OptionSchema& option : norm.options) {
        KeyDoc doc = of_option(option);
        const auto same = std::find_if(docs.begin() + static_cast<std::ptrdiff_t>(first),
                                       docs.end(), [&](const KeyDoc& d) {
                                         return d.path == doc.path && d.meaning == doc.meaning &&
                                                d.default_value == doc.default_value;
                                       });
        if (same != docs.end()) {
          same->read_by.push_back(norm.type);
        } else {
          doc.read_by = {norm.type};
          docs.push_back(std::move(doc));
        }
      }
    }
  }

  static std::string limits(const OptionSchema& option) {
    return describe(between(option.min, option.max));
  }

  static KeyDoc of_option(const OptionSchema& option) {
    KeyDoc doc;
    doc.path = cat(kNormSection, ".", option.key);
    doc.meaning = option.doc;
    doc.is_norm_option = true;
    doc.choices = option.choices;
    const std::string usual =
        std::visit([](const auto& v) { return write_value(v); }, option.default_value);
    doc.default_value = option.per_stage ? "the preset's" : usual;
    doc.example = usual;
    const auto choose = [&] {
      for (const std::string& choice : option.choices) {
        if (choice != doc.default_value && !choice.ends_with("<k>")) doc.example = choice;
      }
    };
    switch (option.kind) {
      case OptionKind::kBool:
        doc.allowed = "true or false";
        doc.example = doc.default_value == "true" ? "false" : "true";
        break;
      case OptionKind::kInt:
        doc.allowed = cat("integer ", option.per_stage ? "or list of them " : "", limits(option));
        break;
      case OptionKind::kNumber: doc.allowed = cat("number ", limits(option)); break;
      case OptionKind::kChoice:
        doc.allowed = cat("one of ", join(option.choices));
        choose();
        break;
      case OptionKind::kChoiceOrNumber:
        doc.allowed = cat(join(option.choices), ", or a number ", limits(option));
        doc.example = number_text(option.min > 0 ? option.min : option.max);
        break;
    }
    return doc;
  }

  const ConfigSchemas& schemas_;
  std::vector<Choice> choices_;
  std::vector<Variant> presets_;  // a default config for each preset
};

}  // namespace

std::vector<KeyDoc> key_docs(const ConfigSchemas& schemas) { return Documenter(schemas).all(); }

}  // namespace dtn::config
