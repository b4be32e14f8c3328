#include "tasks/teacher.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "config/choices.h"
#include "config/model_cache.h"
#include "data/classes/match_classes.h"
#include "data/sample/transforms.h"
#include "dtn/config/load.h"
#include "dtn/core/log.h"
#include "dtn/models/weights.h"
#include "dtn/ops/primitive.h"
#include "dtn/tasks/registries.h"
#include "io/weights_file.h"
#include "tasks/class_names.h"

namespace dtn {

struct Teacher::Source {
  std::filesystem::path file;
  TensorFile weights;
  ExperimentConfig config;

  ClassList classes() const {
    const std::int64_t count = config.model.num_classes;
    return {cat("the teacher in ", file.string()), stored_class_names(weights.metadata, count),
            count};
  }
};

namespace {

bool are_named(const ClassList& a, const ClassList& b) {
  return !a.names.empty() && !b.names.empty();
}

// Checks that teacher and student see the same images and classes. `named`: both have class names,
// which are compared elsewhere.
void check_compatible(const ModelConfig& student, const ModelConfig& teacher, bool named) {
  const auto require = [](const char* what, auto of_student, auto of_teacher) {
    if (of_student == of_teacher) return;
    throw ConfigError(cat("distill.teacher: its ", what, " is ", of_teacher,
                          ", but the student's is ", of_student,
                          "; both need the same images and classes"));
  };
  require("model.image_size", student.image_size, teacher.image_size);
  require("model.channels", student.channels, teacher.channels);
  if (!named) require("model.num_classes", student.num_classes, teacher.num_classes);
}

// Returns the config of the teacher's model, with a head for the student's classes.
ModelConfig for_student(const ModelConfig& student, const ModelConfig& teacher, bool named) {
  check_compatible(student, teacher, named);
  ModelConfig config = teacher;
  config.num_classes = student.num_classes;
  return config;
}

// Returns the normalization of a config's images; nothing if its data set uses images as they are.
std::optional<Normalization> normalization_of(const ExperimentConfig& config,
                                              const Registries& registries) {
  const ConfigSchemas schemas = registries.schemas();
  if (!config::is_read("data.mean", config, schemas)) return {};
  return resolve_normalization(config.data, config.model.channels, registries.datasets);
}

// Loads a teacher's weights. A model for training may reinitialize some of them, such as a head for
// other classes, but a teacher may not: every weight must come from the file.
void load_whole(Classifier& model, const TensorFile& weights, const std::string& file,
                const HeadOptions& head, const PresetRegistry& presets) {
  ParameterStore& store = model.parameters();
  store.values().copy_from(Tensor::full(store.values().shape(), DType::kFloat32, NAN));
  load_adapted(model, weights.tensors, file, origin_of(weights, presets), head);
  const Tensor values = store.values().to(kCpu);
  for (const Parameter& p : store.parameters()) {
    const Tensor of_parameter = ParameterStore::view(values, p);
    const auto all = of_parameter.values<float>();
    if (std::ranges::none_of(all, [](float v) { return std::isnan(v); })) continue;
    throw DataError(cat("distill.teacher: ", file, " has no tensor for ", p.name, " ",
                        to_string(p.shape),
                        ", or the tensor has NaN; its weights belong to another model"));
  }
}

Tensor per_channel(const std::vector<float>& values, Device device) {
  const auto channels = static_cast<std::int64_t>(values.size());
  return Tensor::from(values, {1, channels, 1, 1}).to(device);
}

}  // namespace

Teacher::Source Teacher::open(const TaskSetup& setup) {
  const DistillConfig& distill = setup.config.distill;
  const std::string& named = distill.teacher.value();
  const ConfigSchemas schemas = setup.registries.schemas();
  const auto file = find_weights(locate_weights(named, schemas));
  if (!file) {
    throw ConfigError(
        cat("distill.teacher: ", named,
            " is neither a safetensors file nor a folder of a checkpoint or a run, and "
            "no public model has this name; dtn-info --models lists them"));
  }
  Source source{*file, read_safetensors(*file), {}};
  if (distill.teacher_config) {
    source.config = load_experiment(find_config(*distill.teacher_config, schemas), {}, schemas);
    return source;
  }
  const auto embedded = source.weights.metadata.find("config");
  const std::filesystem::path hub = file->parent_path() / "config.json";
  if (embedded != source.weights.metadata.end()) {
    source.config = parse_experiment(embedded->second, cat(file->string(), " (config)"), {},
                                     schemas, ConfigOrigin::kStored);
  } else if (std::filesystem::exists(hub)) {
    source.config = load_experiment(hub, {}, schemas);
  } else {
    throw ConfigError(cat("distill.teacher: ", file->string(),
                          " has no config; set distill.teacher_config to the config of its model"));
  }
  return source;
}

Teacher::Teacher(const TaskSetup& setup, DType compute, const ClassList& learnt)
    : Teacher(setup, compute, learnt, open(setup)) {}

Teacher::Teacher(const TaskSetup& setup, DType compute, const ClassList& learnt,
                 const Source& source)
    : config_(for_student(setup.config.model, source.config.model,
                          are_named(learnt, source.classes()))),
      compute_(compute),
      model_(config_, 0, DType::kFloat32, setup.device, setup.registries.models,
             setup.registries.norms),
      fingerprint_(fingerprint_of(source.weights.tensors)) {
  if (setup.device == kMeta) return;
  std::string note;
  HeadOptions head;
  head.rows = [&](std::int64_t) {
    return head_rows(learnt, config_.num_classes, source.classes(),
                     "use a teacher with the student's classes", note);
  };
  load_whole(model_, source.weights, source.file.string(), head, setup.registries.presets);
  if (!note.empty()) log_info(note);
  if (compute == DType::kBFloat16) model_.parameters().enable_bfloat16();
  const auto student = normalization_of(setup.config, setup.registries);
  const auto own = normalization_of(source.config, setup.registries);
  if (!student || !own || (student->mean == own->mean && student->std == own->std)) return;
  std::vector<float> scale, shift;
  for (std::size_t c = 0; c < own->mean.size(); ++c) {
    scale.push_back(student->std[c] / own->std[c]);
    shift.push_back((student->mean[c] - own->mean[c]) / own->std[c]);
  }
  scale_ = per_channel(scale, setup.device);
  shift_ = per_channel(shift, setup.device);
}

Tensor Teacher::as_it_sees(const Tensor& images) const {
  if (!scale_.defined()) return images;
  Context unrecorded;
  const Variable scaled = primitive::mul(unrecorded, Variable(images), Variable(scale_));
  return primitive::add(unrecorded, scaled, Variable(shift_)).value();
}

Tensor Teacher::logits(const Fields& batch) {
  Context unrecorded;
  unrecorded.mode.compute = compute_;
  Fields inputs = batch;
  inputs["image"] = as_it_sees(batch.at("image"));
  const Variable logits = model_.forward(unrecorded, inputs);
  return primitive::cast(unrecorded, logits, DType::kFloat32).value();
}

std::string Teacher::description() const {
  return cat(config_.preset, " of ", model_.parameters().count(), " parameters, weights ",
             fingerprint_);
}

std::string named_by_fingerprint(const std::string& fingerprint) {
  return "fingerprint:" + fingerprint;
}

}  // namespace dtn
