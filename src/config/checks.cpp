#include <algorithm>
#include <initializer_list>
#include <optional>

#include "config/codec.h"
#include "config/keys.h"
#include "config/layers.h"
#include "dtn/config/load.h"

namespace dtn::config {
namespace {

class Checker {
 public:
  Checker(const ExperimentConfig& config, const Node& root, const ConfigSchemas& schemas)
      : c_(config), m_(config.model), root_(root), schemas_(schemas) {}

  void run() const {
    check_name();
    check_model();
    check_data();
    check_augment();
    check_optim();
    check_schedule();
    check_train();
    check_loss();
    check_early_stop();
    check_teacher();
    check_task();
  }

 private:
  // Returns the position to report for incompatible keys: the value from the top layer, because the
  // layers below were consistent before. Among equal layers, the first path wins.
  Where blame(std::initializer_list<const char*> paths) const {
    return blame(std::span(paths.begin(), paths.end()));
  }
  Where blame(std::span<const char* const> paths) const {
    const Node* best = nullptr;
    for (const char* path : paths) {
      const Node* node = root_.value_at(path);
      if (node == nullptr) continue;
      if (best == nullptr || node->where.layer > best->where.layer) best = node;
    }
    return best ? best->where : root_.where;
  }

  // Throws the problem, if there is one, at the keys at fault or else at the key of the choice.
  void report(const std::optional<ConfigProblem>& problem, const char* choice) const {
    if (!problem) return;
    std::vector<const char*> paths;
    for (const std::string& key : problem->keys) paths.push_back(key.c_str());
    paths.push_back(choice);
    fail(blame(paths), problem->message);
  }

  void check_name() const {
    if (c_.name.empty() || c_.name == "." || c_.name == ".." || c_.name.size() > 200 ||
        c_.name.find('/') != std::string::npos) {
      fail(blame({"name"}), "name '", shown(c_.name), "' cannot name a run folder");
    }
  }

  void check_model() const {
    check_lists();
    const auto family = std::ranges::find(schemas_.models, m_.family, &ModelSchema::family);
    const auto norm = std::ranges::find(schemas_.norms, m_.norm.type, &NormSchema::type);
    if (family == schemas_.models.end() || norm == schemas_.norms.end()) return;
    for (const char* section : kNormSections) check_meets(section, *family);
    if (family->check != nullptr) report(family->check(m_, *norm), "model.preset");
    for (const char* section : kNormSections) check_norm(section, *family);
  }

  // Returns the schema of the normalizer of a section of kNormSections; null: there is none.
  const NormSchema* norm_schema(const char* section) const {
    const NormConfig* config = norm_of(m_, section);
    if (config == nullptr) return nullptr;
    const auto norm = std::ranges::find(schemas_.norms, config->type, &NormSchema::type);
    return norm == schemas_.norms.end() ? nullptr : &*norm;
  }

  // Checks the normalizer of a section at its places in the model.
  void check_norm(const char* section, const ModelSchema& family) const {
    const NormConfig* config = norm_of(m_, section);
    const NormSchema* norm = norm_schema(section);
    if (norm == nullptr) return;
    if (norm->reads_condition) check_reads_condition(*norm, family);
    if (!norm->check || !family.norm_sites) return;
    for (const NormSite& site : family.norm_sites(m_)) {
      check_site(section, *norm, config->at_stage(site.stage), site);
    }
  }

  // Checks that models of the family have what the normalizer of a section needs.
  void check_meets(const char* section, const ModelSchema& family) const {
    const NormSchema* schema_of_norm = norm_schema(section);
    if (schema_of_norm == nullptr || schema_of_norm->needs.empty()) return;
    const NormSchema& norm = *schema_of_norm;
    const auto meets = [&](const ModelSchema& schema) {
      return std::ranges::find(schema.meets, norm.type) != schema.meets.end();
    };
    if (meets(family)) return;
    std::vector<std::string> others;
    for (const ModelSchema& schema : schemas_.models) {
      if (meets(schema)) others.push_back(schema.family);
    }
    const std::string type = cat(section, ".type");
    fail(blame({type.c_str(), "model.preset"}), type, ": '", norm.type, "' needs ", norm.needs,
         ", which models of the family ", family.family, " do not have",
         others.empty() ? std::string() : cat("; it is for: ", join(others)));
  }

  void check_reads_condition(const NormSchema& norm, const ModelSchema& family) const {
    const auto reads = [](const ModelSchema& schema) {
      return std::ranges::find(schema.reads, "condition.from") != schema.reads.end();
    };
    if (reads(family)) return;
    std::vector<std::string> readers;
    for (const ModelSchema& schema : schemas_.models) {
      if (reads(schema)) readers.push_back(schema.family);
    }
    fail(blame({"model.norm.type", "model.preset"}), "model.norm.type: '", norm.type,
         "' takes gains and shifts from a condition, which models of the family ", family.family,
         " do not read; it is for: ", join(readers));
  }

  // Checks that lists have one value for each stage.
  void check_lists() const {
    const auto stages = static_cast<std::size_t>(m_.stages());
    const auto check = [&](const char* path, bool is_list, std::size_t count) {
      if (!is_list || count == stages) return;
      fail(blame({path, "model.depth"}), path, " has ", count, " values for a model of ", stages,
           stages == 1 ? " stage" : " stages", "; give one value, or one for each stage");
    };
    const auto check_list = [&](const char* path, const auto& list) {
      check(path, list.is_list(), list.values().size());
    };
    check_list("model.embed_dim", m_.embed_dim);
    check_list("model.num_heads", m_.num_heads);
    check_list("model.mlp_ratio", m_.mlp_ratio);
    if (m_.reduction) check_list("model.reduction", *m_.reduction);
    for (const char* section : kNormSections) {
      const NormConfig* norm = norm_of(m_, section);
      if (norm == nullptr) continue;
      for (const NormOption& option : norm->options) {
        if (const auto* each = std::get_if<std::vector<std::int64_t>>(&option.value)) {
          check(cat(section, ".", option.key).c_str(), true, each->size());
        }
      }
    }
  }

  void check_site(const char* section, const NormSchema& norm, const NormConfig& config,
                  const NormSite& site) const {
    const auto problem = norm.check(config, site);
    if (!problem) return;
    const std::string option = cat(section, ".", problem->option), type = cat(section, ".type");
    fail(blame({option.c_str(), type.c_str()}), problem->option.empty() ? "" : option,
         problem->option.empty() ? "" : ": ", problem->message);
  }

  void check_data() const {
    const auto schema = std::ranges::find(schemas_.datasets, c_.data.dataset, &DatasetSchema::name);
    if (schema != schemas_.datasets.end() && schema->check) {
      report(schema->check(c_.data), "data.dataset");
    }
    const auto classes = static_cast<std::int64_t>(c_.data.classes.size());
    if (m_.num_classes > 0 && classes > m_.num_classes && c_.data.label_sets.empty()) {
      fail(blame({"data.classes", "model.num_classes"}), "data.classes has ", classes,
           " classes, model.num_classes is ", m_.num_classes, "; set that to ", classes);
    }
    check_label_sets();
    check_sampling();
    check_channels("data.mean", c_.data.mean.size());
    check_channels("data.std", c_.data.std.size());
  }

  // Checks that a model of several label sets is told which one a sample asks for.
  void check_label_sets() const {
    const std::vector<LabelSet>& sets = c_.data.label_sets;
    std::size_t classes = 0;
    for (const LabelSet& set : sets) {
      if (set.names.empty()) continue;
      if (classes != 0 && set.names.size() != classes) {
        fail(blame({"data.label_sets"}), "data.label_sets: '", set.name, "' names ",
             set.names.size(), " classes, another set ", classes,
             "; each names all classes of the data set in their order");
      }
      classes = set.names.size();
    }
    const bool by_index = m_.condition.from == ConditionFrom::kIndex;
    if (sets.empty() || (sets.size() == 1 && !by_index)) return;
    if (by_index && m_.condition.styles == static_cast<std::int64_t>(sets.size())) return;
    fail(blame({"data.label_sets", "model.condition.styles", "model.condition.from"}),
         "data.label_sets has ", sets.size(), sets.size() == 1 ? " set" : " sets",
         by_index ? cat(", and model.condition.styles is ", m_.condition.styles.value_or(0),
                        "; each index stands for one set, so the numbers must be equal")
                  : cat(", so the model must read which one a sample asks for; set "
                        "model.norm.type: adaln, model.condition.from: index and "
                        "model.condition.styles: ",
                        sets.size()));
  }

  void check_channels(const char* path, std::size_t count) const {
    if (count <= 1 || count == static_cast<std::size_t>(m_.channels)) return;
    fail(blame({path, "model.channels"}), path, " has ", count, " numbers for ", m_.channels,
         m_.channels == 1 ? " channel" : " channels", "; give one, or one per channel");
  }

  void check_augment() const {
    const AugmentConfig& a = c_.augment;
    check_policy(a.policy);
    check_mixing();
    check_views();
    check_ascending("augment.scale", a.scale_min, a.scale_max);
    check_ascending("augment.ratio", a.ratio_min, a.ratio_max);
    const DinoConfig& d = c_.dino;
    check_ascending("dino.global_scale", d.global_scale_min, d.global_scale_max);
    check_ascending("dino.local_scale", d.local_scale_min, d.local_scale_max);
  }

  void check_ascending(const char* path, double least, double most) const {
    if (least <= most) return;
    fail(blame({path}), path, ": the least comes first, ", number_text(least), " is more than ",
         number_text(most));
  }

  // Checks the keys of presets that make several views of each image, and the keys that these
  // presets do not read.
  void check_views() const {
    const AugmentConfig &a = c_.augment, none;
    const bool views = a.makes_views();
    const auto unread = [&](const char* path, bool set) {
      if (!set) return;
      fail(blame({path, "augment.preset"}), path, " means nothing for augment.preset ",
           name_of_preset(), views ? "; remove it" : "; set dino or supcon, or remove it");
    };
    unread("augment.gray", !views && a.gray != 0);
    unread("augment.blur", !views && !a.blur.empty());
    unread("augment.solarize", !views && a.solarize != 0);
    unread("augment.policy", views && a.policy != none.policy);
    unread("augment.erase", views && a.erase != 0);
    unread("augment.mixup", views && a.mixup != 0);
    unread("augment.cutmix", views && a.cutmix != 0);
    if (a.blur.size() > 1 && a.blur.size() != 3) {
      fail(blame({"augment.blur"}), "augment.blur has ", a.blur.size(),
           " numbers; give one, or three: for the first view, for the second and for the others");
    }
  }

  std::string name_of_preset() const {
    return std::ranges::find(keys(), "augment.preset", &Key::path)->write(c_);
  }

  void check_mixing() const {
    if (!c_.augment.mix_off_epoch || c_.augment.mixes()) return;
    fail(blame({"augment.mix_off_epoch"}),
         "augment.mix_off_epoch means nothing where no batch is mixed; set augment.mixup or "
         "augment.cutmix, or remove it");
  }

  void check_policy(const std::string& policy) const {
    const std::string name = policy.substr(0, policy.find('-'));
    std::vector<std::string> known;
    for (const PolicySchema& schema : schemas_.policies) {
      known.push_back(schema.name);
      if (schema.name != name) continue;
      if (!schema.check && policy != name) {
        fail(blame({"augment.policy"}), "augment.policy `", shown(policy), "`: nothing follows `",
             name, "`");
      }
      const auto problem = schema.check ? schema.check(policy) : std::nullopt;
      if (problem) fail(blame({"augment.policy"}), *problem);
      return;
    }
    fail(blame({"augment.policy"}), "augment.policy: '", shown(policy), "' begins with none of ",
         join(known), did_you_mean(name, known));
  }

  void check_optim() const {
    const OptimConfig& o = c_.optim;
    if (o.clip_adaptive_head && !o.clip_adaptive) {
      fail(
          blame({"optim.clip_adaptive_head"}),
          "optim.clip_adaptive_head means nothing without optim.clip_adaptive; set that, or remove "
          "it");
    }
    check_clipping();
    const auto schema = std::ranges::find(schemas_.optimizers, o.name, &OptimizerSchema::name);
    if (schema == schemas_.optimizers.end()) return;
    if (schema->check) report(schema->check(o), "optim.name");
  }

  void check_clipping() const {
    const OptimConfig& o = c_.optim;
    const bool clips_norm = o.clip_grad_norm.value_or(0) > 0;
    if (!o.clip_param_norm || (!clips_norm && !o.clip_adaptive)) return;
    const char* other = clips_norm ? "optim.clip_grad_norm" : "optim.clip_adaptive";
    fail(blame({"optim.clip_param_norm", other}), "optim.clip_param_norm and ", other,
         " are both set; use one of them, by optim.clip_param_norm: null or ", other,
         clips_norm ? ": 0" : ": null");
  }

  void check_schedule() const {
    const ScheduleConfig& s = c_.schedule;
    const auto schema = std::ranges::find(schemas_.schedules, s.name, &ScheduleSchema::name);
    if (schema == schemas_.schedules.end()) return;
    if (schema->check) {
      report(schema->check(s, c_.optim.peak_lr(c_.train.batch_size)), "schedule.name");
    }
    const std::optional<double> least =
        schema->min_epochs ? std::optional(schema->min_epochs(s)) : std::nullopt;
    if (!s.epochs || s.fits(static_cast<double>(*s.epochs), least)) return;
    fail(blame({"schedule.cooldown_epochs", "schedule.decay_epochs", "schedule.warmup_epochs",
                "schedule.epochs", "schedule.name"}),
         "schedule.epochs ", *s.epochs, " has no room for ", number_text(s.warmup_epochs),
         " epochs of warmup", least ? cat(", ", number_text(*least), " of the way down") : "",
         " and ", number_text(s.cooldown_epochs), " of cooldown",
         least ? "" : ", and some between them", "; schedule.epochs is the whole run");
  }

  void check_train() const {
    const TrainConfig& t = c_.train;
    if (t.micro_batch && t.batch_size % *t.micro_batch != 0) {
      fail(blame({"train.micro_batch", "train.batch_size"}), "train.batch_size ", t.batch_size,
           " is not divisible by train.micro_batch ", *t.micro_batch);
    }
    if (t.ema_warmup && !t.ema) {
      fail(blame({"train.ema_warmup", "train.ema"}),
           "train.ema_warmup is on, but train.ema is not set; set it, or remove ema_warmup");
    }
    if (t.best == BestBy::kEma && !t.ema) {
      fail(blame({"train.best", "train.ema"}),
           "train.best is ema, but train.ema is not set; set it or use best: raw");
    }
  }

  // Throws at a key of another loss, unless its value is the default of a switch.
  void check_key_of_loss(const char* key, LossKind loss) const {
    const Node* node = root_.value_at(key);
    if (c_.train.loss == loss || node == nullptr || node->text == "false") return;
    fail(node->where, key, " means nothing for train.loss: ", name_of_loss(c_.train.loss),
         "; set train.loss: ", name_of_loss(loss), ", or remove it");
  }

  static const std::string& name_of_loss(LossKind loss) {
    const auto key = std::ranges::find(keys(), "train.loss", &Key::path);
    return key->choices[static_cast<std::size_t>(loss)];
  }

  // Checks that a draw from the classes does not contradict a fixed order.
  void check_sampling() const {
    if (c_.data.sampling == Sampling::kUniform || c_.data.shuffle) return;
    fail(blame({"data.sampling", "data.shuffle"}),
         "data.sampling: balanced draws images at random, but data.shuffle is false; remove one of "
         "the two");
  }

  void check_class_weights() const {
    const TrainConfig& t = c_.train;
    if (t.class_weights.any() && t.loss == LossKind::kBinary) {
      fail(blame({"train.class_weights", "train.loss"}),
           "train.class_weights means nothing for train.loss: bce, which decides each class "
           "separately; set train.loss: ce or focal, or class_weights: none; data.sampling: "
           "balanced works with every loss");
    }
  }

  // Checks that early stopping watches a figure of the task.
  void check_early_stop() const {
    const EarlyStopConfig& stop = c_.train.early_stop;
    if (!stop.metric) return;
    if (!stop.patience) {
      fail(blame({"train.early_stop.metric"}),
           "train.early_stop.metric means nothing without train.early_stop.patience; set that to a "
           "number of evaluations");
    }
    const auto task = std::ranges::find(schemas_.tasks, c_.task, &TaskSchema::name);
    if (task == schemas_.tasks.end()) return;
    std::vector<std::string> names;
    for (const FigureSchema& figure : task->figures) names.push_back(figure.name);
    if (std::ranges::find(names, *stop.metric) != names.end()) return;
    fail(blame({"train.early_stop.metric"}), "train.early_stop.metric is ", *stop.metric,
         ", but the figures of the task ", c_.task, " are ", join(names));
  }

  void check_loss() const {
    const TrainConfig& t = c_.train;
    for (const char* key : {"train.bce_target_threshold", "train.bce_sum"}) {
      check_key_of_loss(key, LossKind::kBinary);
    }
    check_key_of_loss("train.focal_gamma", LossKind::kFocal);
    check_class_weights();
    if (!t.bce_target_threshold || m_.num_classes == 0) return;
    const double others = t.label_smoothing / m_.num_classes, own = 1 - t.label_smoothing + others;
    const auto refuse = [&](const char* which) {
      fail(blame({"train.bce_target_threshold", "train.label_smoothing"}),
           "train.bce_target_threshold ", number_text(*t.bce_target_threshold),
           " with train.label_smoothing ", number_text(t.label_smoothing), " makes ", which,
           ": targets are ", number_text(own), " at the label and ", number_text(others),
           " elsewhere; set label_smoothing: 0, or a threshold between these");
    };
    if (others > *t.bce_target_threshold) refuse("every class right for every image");
    if (own <= *t.bce_target_threshold) refuse("no class right for any image");
  }

  void check_teacher() const {
    const DistillConfig& d = c_.distill;
    if (d.teacher && m_.num_classes == 0) {
      fail(blame({"distill.teacher", "model.num_classes"}),
           "distill.teacher: features have no classes to agree on; set model.num_classes");
    }
    if (d.teacher || d == DistillConfig()) return;
    fail(blame({"distill.teacher_config", "distill.type", "distill.alpha", "distill.temperature",
                "distill.reduction"}),
         "the section distill means nothing without distill.teacher; set it to the weights of a "
         "trained model, or remove the section");
  }

  void check_task() const {
    const auto schema = std::ranges::find(schemas_.tasks, c_.task, &TaskSchema::name);
    if (schema == schemas_.tasks.end()) return;
    check_family_of(*schema);
    check_condition(*schema);
    if (schema->check) report(schema->check(c_), "task");
  }

  void check_condition(const TaskSchema& task) const {
    if (!m_.condition.from) return;
    if (!task.gives_condition) {
      std::vector<std::string> givers;
      for (const TaskSchema& schema : schemas_.tasks) {
        if (schema.gives_condition) givers.push_back(schema.name);
      }
      fail(blame({"model.condition.from", "task"}), "model.condition.from: task ", task.name,
           " gives models no condition; use task ", join(givers), ", or remove the key");
    }
    if (c_.augment.mixes()) {
      fail(blame({"augment.mixup", "augment.cutmix", "augment.preset", "model.condition.from"}),
           "model.condition.from: a mixed image has the condition of only one of its two images; "
           "set augment.mixup: 0 and augment.cutmix: 0");
    }
  }

  void check_family_of(const TaskSchema& task) const {
    const auto family = std::ranges::find(schemas_.models, m_.family, &ModelSchema::family);
    if (family == schemas_.models.end()) return;
    if (!family->task.empty() && family->task != task.name) {
      fail(blame({"task", "model.preset"}), "model.preset ", m_.preset, " learns only task ",
           family->task, ", not ", task.name, "; set task: ", family->task,
           ", or choose another preset");
    }
    if (family->task.empty() && task.own_families) {
      std::vector<std::string> names;
      for (const PresetSchema& preset : schemas_.presets) {
        const auto own =
            std::ranges::find(schemas_.models, preset.model.family, &ModelSchema::family);
        if (own != schemas_.models.end() && own->task == task.name) names.push_back(preset.name());
      }
      fail(blame({"task", "model.preset"}), "task ", task.name, " cannot train model.preset ",
           m_.preset, "; it trains ", join(names));
    }
  }

  const ExperimentConfig& c_;
  const ModelConfig& m_;
  const Node& root_;
  const ConfigSchemas& schemas_;
};

}  // namespace

void check_combinations(const ExperimentConfig& config, const Node& root,
                        const ConfigSchemas& schemas) {
  Checker(config, root, schemas).run();
}

}  // namespace dtn::config
