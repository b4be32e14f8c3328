#include "dtn/tasks/dino.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/format.h"
#include "data/feed/view_samples.h"
#include "dtn/dist/communicator.h"
#include "dtn/models/weights.h"
#include "dtn/ops/primitive.h"
#include "dtn/ops/self_distillation.h"
#include "dtn/ops/tokens.h"
#include "dtn/optim/optimizer.h"
#include "dtn/tasks/registries.h"
#include "models/weights/key_prefixes.h"
#include "tasks/backbone_cost.h"
#include "tasks/backbone_weights.h"
#include "tasks/collapse.h"
#include "tasks/dino_net.h"
#include "tasks/model_text.h"
#include "tasks/neighbors_meter.h"
#include "tasks/view_passes.h"
#include "tasks/view_sources.h"

namespace dtn {
namespace {

constexpr int kGlobalViews = 2;
// Passes of a step, for random numbers.
enum DinoPass : std::uint32_t { kGlobalPass, kLocalPass, kTeacherPass };

// The teacher drops nothing.
ModelConfig teacher_model(ModelConfig model) {
  model.drop_path = 0;
  model.dropout = 0;
  return model;
}

// Throws ConfigError if the model cannot process the local views.
void check_local_views(const ExperimentConfig& config, const Backbone& backbone) {
  const DinoConfig& dino = config.dino;
  if (dino.local_crops == 0) return;
  const std::string problem = backbone.size_problem({dino.local_size, dino.local_size});
  if (problem.empty()) return;
  throw ConfigError(cat("dino.local_size ", dino.local_size, ": the model ", config.model.preset,
                        " cannot process views of this size: ", problem,
                        "; set another dino.local_size, or dino.local_crops: 0"));
}

double teacher_temperature(const DinoConfig& dino, std::int64_t epoch) {
  const std::int64_t warmup = dino.warmup_teacher_temp_epochs;
  if (epoch >= warmup) return dino.teacher_temp;
  if (warmup == 1) return dino.warmup_teacher_temp;
  return dino.warmup_teacher_temp + (dino.teacher_temp - dino.warmup_teacher_temp) *
                                        static_cast<double>(epoch) /
                                        static_cast<double>(warmup - 1);
}

// Half a cosine from the first momentum to 1 over the run.
double momentum_at(double first, std::int64_t step, std::int64_t steps) {
  if (steps == 0) return first;
  const double progress = static_cast<double>(step) / static_cast<double>(steps);
  return 1 + (first - 1) * (1 + std::cos(std::numbers::pi * progress)) / 2;
}

}  // namespace

Dino::Dino(const TaskSetup& setup)
    : device_(setup.device),
      config_(setup.config),
      registries_(setup.registries),
      student_(std::make_unique<DinoNet>(setup, setup.config.model)),
      teacher_(std::make_unique<DinoNet>(setup, teacher_model(setup.config.model))),
      center_(state_.add_buffer("dino.center", {1, setup.config.dino.out_dim}, InitKind::kZeros)),
      passes_(std::make_unique<ViewPasses>(setup.device)),
      sources_(std::make_unique<ViewSources>(setup.config, setup.registries)) {
  check_local_views(config_, *student_->backbone);
  ParameterStore& student = student_->store;
  const std::string last_layer = DinoHead::last_layer(Scope(student, "head"));
  // Late even if no epoch freezes it, so that a resumed run may change their number.
  for (Parameter& p : student.parameters()) p.late = p.name.starts_with(last_layer);
  student.allocate(DType::kFloat32, device_);
  teacher_->store.allocate(DType::kFloat32, device_, false);
  state_.allocate(DType::kFloat32, device_, false);
  student.initialize(config_.seed);
  copy_student();
  if (!config_.dino.norm_last_layer) return;
  const std::string gain = last_layer + "weight_g";
  student.freeze([&](const Parameter& p) { return p.name == gain; }, false);
}

Dino::~Dino() = default;

// Starts the teacher with the student's weights.
void Dino::copy_student() {
  ParameterStore& teacher = teacher_->store;
  if (device_ == kMeta) return;
  teacher.values().copy_from(student_->store.values());
  teacher.restart_buffers();
  teacher.refresh_bfloat16();
}

std::shared_ptr<const SampleSource> Dino::source(Split split, Device device) const {
  if (split == Split::kVal) return sources_->validation(device);
  return dino_samples_of(sources_->training_images(), config_, device, registries_);
}

Tensor Dino::teacher_logits(Context& ctx, const Tensor& global) {
  Context own = passes_->context(ctx, global.dim(0), kGlobalViews, kTeacherPass);
  own.tape = nullptr;
  const Variable features = teacher_->backbone->pooled(own, {{"image", rows_of_views(global)}});
  return teacher_->head.raw_logits(own, features).value();
}

Variable Dino::student_logits(Context& ctx, const Fields& batch) {
  const auto features_of = [&](const Tensor& views, std::uint32_t pass) {
    Context own = passes_->context(ctx, views.dim(0), views.dim(1), pass);
    return student_->backbone->pooled(own, {{"image", rows_of_views(views)}});
  };
  Variable features = features_of(batch.at("global"), kGlobalPass);
  if (const Tensor* local = batch.find("local")) {
    features = primitive::concat(ctx, features, features_of(*local, kLocalPass), 0);
  }
  return student_->head.raw_logits(ctx, features);
}

// Returns the share of a micro-batch's mean in the step's new center. Each rank adds the shares of
// its micro-batches, and the learner then takes the mean over the ranks.
double Dino::center_share(const Context& ctx, std::int64_t samples) const {
  const int ranks = ctx.ranks.communicator ? ctx.ranks.communicator->size() : 1;
  return (1 - config_.dino.center_momentum) * static_cast<double>(samples * ranks) /
         config_.train.batch_size;
}

Variable Dino::loss(Context& ctx, const Fields& batch, std::vector<Term>& logged) {
  DTN_CHECK(scheduled_, "call use_scheduled() before a loss");
  const Tensor& global = batch.at("global");
  const Tensor* local = batch.find("local");
  const DinoHead& teacher = teacher_->head;
  const DinoHead& student = student_->head;
  ops::SelfDistillation how;
  how.teacher = teacher_logits(ctx, global);
  how.teacher_scale =
      ops::weight_norm_scale(ctx, teacher.direction().value(), teacher.gain().value());
  how.center = center_->value;
  how.next_center = center_->next;
  how.center_share = center_share(ctx, global.dim(0));
  how.student_temp = config_.dino.student_temp;
  how.teacher_temp = scheduled_ + 1;
  how.local_views = local ? local->dim(1) : 0;
  const ops::SelfDistillationLoss result = ops::self_distillation(
      ctx, student_logits(ctx, batch), student.direction(), student.gain(), how);
  logged = {{"teacher_entropy", result.teacher_entropy}, {"center_norm", result.center_norm}};
  if (local) {
    logged.push_back({"loss_global", result.loss_global});
    logged.push_back({"loss_local", result.loss_local});
  }
  return result.loss;
}

std::vector<Named<double>> Dino::scheduled(std::int64_t step, const RunLength& run) const {
  const DinoConfig& dino = config_.dino;
  return {{"teacher_momentum", momentum_at(dino.teacher_momentum, step, run.steps)},
          {"teacher_temp", teacher_temperature(dino, step / run.steps_per_epoch)}};
}

std::int64_t Dino::late_from(const RunLength& run) const {
  return config_.dino.freeze_last_layer_epochs * run.steps_per_epoch;
}

std::optional<TaskWarning> Dino::warning(const std::vector<Named<double>>& means, std::int64_t step,
                                         const RunLength& run) const {
  const auto entropy = std::ranges::find(means, "teacher_entropy", &Named<double>::name);
  if (entropy == means.end()) return std::nullopt;
  return collapse_warning(config_.dino, entropy->value, is_settled(config_, run, step));
}

Fields Dino::outputs(Context& ctx, const Fields& batch) {
  const Variable features = teacher_->backbone->pooled(ctx, batch);
  return {{"features", ops::cast(ctx, features, DType::kFloat32).value()}};
}

void Dino::after_update(const UpdateState* state) {
  average_parameters_into(teacher_->store, student_->store, scheduled_, state);
}

std::shared_ptr<const SampleSource> Dino::references(Device device) const {
  return sources_->references(device);
}

std::unique_ptr<Meter> Dino::meter() const { return std::make_unique<NeighborsMeter>(); }

std::vector<Named<ParameterStore*>> Dino::stores() {
  return {{"student", &student_->store}, {"teacher", &teacher_->store}, {"", &state_}};
}

ParameterStore* Dino::averaged() { return &teacher_->store; }

Backbone* Dino::backbone() { return student_->backbone.get(); }

std::vector<std::string> Dino::load_weights(const std::string& file, WeightsUse use) {
  const TensorFile weights = read_safetensors(file);
  if (use == WeightsUse::kEvaluation) {
    load_exact(teacher_->store, weights.tensors, file);
    return {};
  }
  return load_to_train(weights, file);
}

std::vector<std::string> Dino::load_to_train(const TensorFile& weights, const std::string& file) {
  StudentAndTeacher networks = split_student_teacher(weights.tensors);
  std::vector<std::string> notes;
  const auto load = [&](DinoNet& net, const NamedTensors& tensors, const char* title) {
    const LoadedNetwork loaded =
        load_network(net.store, config_.model, {tensors, weights.metadata, file}, registries_);
    for (const std::string& note : loaded.notes) notes.push_back(title + note);
    return loaded.has_head;
  };
  if (networks.are_two) {
    load(*student_, networks.student, "student: ");
    copy_student();  // the teacher keeps this head if the file has none that fits
    const bool has_head = load(*teacher_, networks.teacher, "teacher: ");
    notes.push_back(load_center(networks.others, has_head, file));
  } else {
    load(*student_, networks.student, "");
    copy_student();
  }
  if (!networks.others.empty()) notes.push_back(note_of_unused(networks.others));
  return notes;
}

// Takes the center out of the tensors beside the networks if it `fits`, because it belongs to the
// outputs of the teacher's head. Returns a note.
std::string Dino::load_center(NamedTensors& others, bool fits, const std::string& file) {
  const auto center =
      std::ranges::find(others, "dino_loss.center", &NamedTensors::value_type::first);
  if (!fits || center == others.end()) return "center: starts at 0";
  load_exact(state_, {{center_->name, center->second}}, file);
  others.erase(center);
  return "student, teacher and center: each from its own tensors";
}

void Dino::reset_head(std::uint64_t seed) {
  const auto is_head = [](const Parameter& p) { return p.head; };
  student_->store.initialize_some(seed, is_head);
  teacher_->store.initialize_some(seed, is_head);
  state_.initialize(seed);
}

std::string Dino::description() const {
  return cat(describe_backbone(config_.model, registries_.models.at(config_.model.family)),
             ", and a head of ", config_.dino.out_dim, " outputs, ", student_->store.count(),
             " parameters; a teacher of the same size");
}

std::string Dino::objective() const {
  const DinoConfig& dino = config_.dino;
  const std::string locals = dino.local_crops > 0
                                 ? cat(" and ", counted(dino.local_crops, "local views"), " of ",
                                       dino.local_size, " pixels")
                                 : "";
  return cat("self-distillation over ", kGlobalViews, " global views", locals, " per image, ",
             format("%.4g", std::log(static_cast<double>(dino.out_dim))),
             " if all outputs are equal");
}

Complexity Dino::evaluation_cost() {
  return backbone_cost(config_.model, config_.model.image_size, registries_);
}

Complexity Dino::cost() {
  const DinoConfig& dino = config_.dino;
  const double hidden = static_cast<double>(dino.hidden_dim);
  const double bottleneck = static_cast<double>(dino.bottleneck_dim);
  const double head =
      hidden * (static_cast<double>(student_->backbone->stages().back().channels) + hidden) +
      bottleneck * (hidden + static_cast<double>(dino.out_dim));
  // A training step costs three forward passes of the student, and one of the teacher.
  constexpr double kStudent = 1, kTeacher = 1.0 / 3;
  Complexity sum = evaluation_cost();
  sum.parameters = student_->store.count();
  const Complexity local =
      dino.local_crops > 0
          ? backbone_cost(config_.model, {dino.local_size, dino.local_size}, registries_)
          : Complexity();
  const auto add = [&](double Complexity::*figure) {
    sum.*figure = (kStudent + kTeacher) * kGlobalViews * (sum.*figure + head) +
                  dino.local_crops * (local.*figure + head);
  };
  add(&Complexity::paper_multiply_adds);
  add(&Complexity::multiply_adds);
  add(&Complexity::computed_multiply_adds);
  sum.activation_bytes_fp32 =
      kGlobalViews * sum.activation_bytes_fp32 + dino.local_crops * local.activation_bytes_fp32;
  sum.activation_bytes_bf16 =
      kGlobalViews * sum.activation_bytes_bf16 + dino.local_crops * local.activation_bytes_bf16;
  return sum;
}

}  // namespace dtn
