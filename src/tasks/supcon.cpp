#include "dtn/tasks/supcon.h"

#include <cmath>
#include <numeric>

#include "core/format.h"
#include "data/feed/view_samples.h"
#include "dtn/dist/communicator.h"
#include "dtn/models/weights.h"
#include "dtn/nn/linear.h"
#include "dtn/ops/activation.h"
#include "dtn/ops/contrastive.h"
#include "dtn/ops/norm.h"
#include "dtn/ops/primitive.h"
#include "dtn/ops/tokens.h"
#include "dtn/tasks/registries.h"
#include "models/weights/key_prefixes.h"
#include "tasks/backbone_cost.h"
#include "tasks/backbone_weights.h"
#include "tasks/model_text.h"
#include "tasks/neighbors_meter.h"
#include "tasks/view_passes.h"
#include "tasks/view_sources.h"

namespace dtn {

// The parameters backbone.*, head.0.* and head.2.*.
struct SupconNet {
  explicit SupconNet(const TaskSetup& setup)
      : SupconNet(setup, Scope(store, "", &setup.registries.norms)) {}

  ParameterStore store;
  std::unique_ptr<Backbone> backbone;
  std::int64_t channels, hidden;
  Linear in, out;

 private:
  SupconNet(const TaskSetup& setup, const Scope& root)
      : backbone(setup.registries.models.at(setup.config.model.family)
                     .make(root / "backbone", setup.config.model)),
        channels(backbone->stages().back().channels),
        hidden(setup.config.supcon.hidden_dim.value_or(channels)),
        in(root / "head" / 0, channels, hidden),
        out(root / "head" / 2, hidden, setup.config.supcon.feat_dim) {
    for (Parameter& p : store.parameters()) p.head = p.name.starts_with("head.");
    store.allocate(DType::kFloat32, setup.device);
    store.initialize(setup.config.seed);
  }
};

namespace {

Tensor joined(const Tensor& a, const Tensor& b) {
  if (!a.defined()) return b;
  Tensor both =
      Tensor::empty(Shape{a.dim(0) + b.dim(0), a.numel() / a.dim(0)}, a.dtype(), a.device());
  both.slice(0, a.dim(0)).copy_from(a);
  both.slice(a.dim(0), both.dim(0)).copy_from(b);
  return a.rank() == 1 ? both.reshape({-1}) : both;
}

}  // namespace

Supcon::Supcon(const TaskSetup& setup)
    : device_(setup.device),
      config_(setup.config),
      registries_(setup.registries),
      net_(std::make_unique<SupconNet>(setup)),
      passes_(std::make_unique<ViewPasses>(setup.device)),
      sources_(std::make_unique<ViewSources>(setup.config, setup.registries)) {}

Supcon::~Supcon() = default;

void Supcon::learn_classes(const SampleSource& training) {
  const auto* views = dynamic_cast<const ViewSamples*>(&training);
  labelled_ = !views || views->dataset().has_labels();
}

std::shared_ptr<const SampleSource> Supcon::source(Split split, Device device) const {
  if (split == Split::kVal) return sources_->validation(device);
  return supcon_samples_of(sources_->training_images(), config_, device, registries_);
}

// Returns the rows of all views, [n V, D] in float32.
Variable Supcon::project(Context& ctx, const Tensor& views) {
  Context own = passes_->context(ctx, views.dim(0), views.dim(1), 0);
  const Variable features = net_->backbone->pooled(own, {{"image", rows_of_views(views)}});
  const Variable hidden = ops::relu(own, net_->in.forward(own, features));
  const Variable row = ops::cast(own, net_->out.forward(own, hidden), DType::kFloat32);
  return ops::l2_normalize(own, row);
}

Supcon::LabelledRows Supcon::of_all_ranks(const Context& ctx, const LabelledRows& own) const {
  Communicator* ranks = ctx.ranks.communicator;
  if (!ranks) return own;
  const std::int64_t all = config_.supcon.views * std::int64_t{config_.train.batch_size};
  DTN_CHECK(own.rows.dim(0) * ranks->size() == all, "supcon: ranks with unequal shares of a batch");
  return {ranks->all_gather(own.rows).reshape({all, own.rows.dim(1)}),
          ranks->all_gather(own.labels).reshape({all})};
}

void Supcon::preview(Context& ctx, const Fields& batch, std::size_t part, std::size_t parts) {
  if (part == 0) whole_ = {};
  const Variable rows = project(ctx, batch.at("views"));
  whole_ = {joined(whole_.rows, rows.value()),
            joined(whole_.labels, rows_of_views(batch.at("label")))};
  if (part + 1 < parts) return;
  whole_ = of_all_ranks(ctx, whole_);
  parts_left_ = parts;
}

// Returns first, first + 1, ... on the device.
Tensor Supcon::positions(std::int64_t first, std::int64_t count) {
  Tensor& positions = positions_[{first, count}];
  if (!positions.defined()) {
    std::vector<std::int64_t> each(static_cast<std::size_t>(count));
    std::iota(each.begin(), each.end(), first);
    positions = Tensor::from(each, {count}).to(device_);
  }
  return positions;
}

Variable Supcon::loss(Context& ctx, const Fields& batch, std::vector<Term>& logged) {
  const SupconConfig& supcon = config_.supcon;
  const Variable rows = project(ctx, batch.at("views"));
  const LabelledRows all =
      parts_left_ > 0 ? whole_
                      : of_all_ranks(ctx, {rows.value(), rows_of_views(batch.at("label"))});
  const std::int64_t n = rows.dim(0), m = all.rows.dim(0);
  ops::Contrast how;
  how.temperature = supcon.temperature;
  how.base_temperature = supcon.base_temperature.value_or(supcon.temperature);
  how.labels = all.labels;
  if (n < m) {
    const int ranks = ctx.ranks.communicator ? ctx.ranks.communicator->size() : 1;
    const int rank = ctx.ranks.communicator ? ctx.ranks.communicator->rank() : 0;
    const std::int64_t first =
        rank * (m / ranks) + static_cast<std::int64_t>(ctx.rng.first_sample) * supcon.views;
    how.all_features = all.rows;
    how.positions = positions(first, n);
  }
  const ops::ContrastiveLoss result = ops::contrastive(ctx, rows, how);
  if (parts_left_ > 0 && --parts_left_ == 0) whole_ = {};
  logged = {{"without_positives", result.without_positives}};
  return result.loss;
}

Fields Supcon::outputs(Context& ctx, const Fields& batch) {
  const Variable features = net_->backbone->pooled(ctx, batch);
  return {{"features", ops::cast(ctx, features, DType::kFloat32).value()}};
}

std::shared_ptr<const SampleSource> Supcon::references(Device device) const {
  return sources_->references(device);
}

std::unique_ptr<Meter> Supcon::meter() const { return std::make_unique<NeighborsMeter>(); }

std::vector<Named<ParameterStore*>> Supcon::stores() { return {{"model", &net_->store}}; }

Backbone* Supcon::backbone() { return net_->backbone.get(); }

std::vector<std::string> Supcon::load_weights(const std::string& file, WeightsUse use) {
  const TensorFile weights = read_safetensors(file);
  if (use == WeightsUse::kTraining) {
    const StudentAndTeacher networks = split_student_teacher(weights.tensors);
    std::vector<std::string> notes =
        load_network(net_->store, config_.model, {networks.teacher, weights.metadata, file},
                     registries_)
            .notes;
    if (!networks.others.empty()) notes.push_back(note_of_unused(networks.others));
    return notes;
  }
  load_exact(net_->store, weights.tensors, file);
  return {};
}

std::string Supcon::description() const {
  return cat(describe_backbone(config_.model, registries_.models.at(config_.model.family)),
             ", and a head of ", config_.supcon.feat_dim, " outputs, ", net_->store.count(),
             " parameters");
}

std::string Supcon::objective() const {
  const SupconConfig& supcon = config_.supcon;
  const double others = supcon.views * config_.train.batch_size - 1.0;
  const double factor = supcon.temperature / supcon.base_temperature.value_or(supcon.temperature);
  return cat(labelled_
                 ? "supervised contrastive"
                 : "contrastive, without labels: the views of an image are its only positives",
             ", over ", supcon.views, " views per image, ",
             format("%.4g", factor * std::log(others)), " if all rows are equal");
}

Complexity Supcon::evaluation_cost() {
  return backbone_cost(config_.model, config_.model.image_size, registries_);
}

Complexity Supcon::cost() {
  Complexity sum = evaluation_cost();
  sum.parameters = net_->store.count();
  const double head =
      static_cast<double>(net_->hidden * (net_->channels + config_.supcon.feat_dim));
  for (double* figure :
       {&sum.paper_multiply_adds, &sum.multiply_adds, &sum.computed_multiply_adds}) {
    *figure = config_.supcon.views * (*figure + head);
  }
  sum.activation_bytes_fp32 *= config_.supcon.views;
  sum.activation_bytes_bf16 *= config_.supcon.views;
  return sum;
}

}  // namespace dtn
