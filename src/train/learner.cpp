#include "train/learner.h"

#include <algorithm>

#include "core/cuda_device.h"
#include "data/feed/epoch_plan.h"
#include "kernels/pointwise/pointwise.h"
#include "train/freeze.h"
#include "train/run_schedule.h"

namespace dtn {
namespace {

DType compute_dtype_of(Precision precision, Device device) {
  switch (precision) {
    case Precision::kFloat32: return DType::kFloat32;
    case Precision::kBFloat16: return DType::kBFloat16;
    case Precision::kTf32:
      if (device.type == DeviceType::kCuda) return DType::kFloat32;
  }
  throw ConfigError("train.precision: tf32 needs a CUDA device; use fp32 or bf16");
}

// Freezes parameters as configured, and returns the store that learns.
ParameterStore& learning(const TrainConfig& train, Task& task) {
  ParameterStore& parameters = *task.stores().front().value;
  freeze_parameters(train.freeze, parameters);
  return parameters;
}

// Returns the inputs that a captured step depends on: the number of rows, and their addresses.
std::vector<std::uintptr_t> signature_of(const Fields& batch) {
  std::vector<std::uintptr_t> signature{static_cast<std::uintptr_t>(batch.count())};
  for (const auto& [name, tensor] : batch) {
    if (tensor.defined()) signature.push_back(reinterpret_cast<std::uintptr_t>(tensor.raw()));
  }
  return signature;
}

// The products of a training step, in TF32 if that is its precision. Those of an evaluation are in
// float32.
class StepProducts {
 public:
  explicit StepProducts(Precision precision) { cuda::allow_tf32(precision == Precision::kTf32); }
  ~StepProducts() { cuda::allow_tf32(false); }
  StepProducts(const StepProducts&) = delete;
  StepProducts& operator=(const StepProducts&) = delete;
};

}  // namespace

Learner::Learner(const ExperimentConfig& config, Task& task, Device device, Communicator* ranks,
                 const OptimizerRegistry& optimizers)
    : train_(config.train),
      clip_(config.optim.clip_grad_norm.value_or(0)),
      weight_decay_(config.optim.weight_decay),
      seed_(config.seed),
      compute_(compute_dtype_of(config.train.precision, device)),
      device_(device),
      ranks_(ranks && !ranks->is_single() ? ranks : nullptr),
      task_(task),
      parameters_(learning(train_, task)),
      has_late_(std::ranges::any_of(parameters_.parameters(),
                                    [](const Parameter& p) { return p.late && !p.frozen; })),
      micro_batches_(config.train, ranks_),
      optimizer_(make_optimizer(config.optim, parameters_, optimizers)),
      pipeline_(device, config.train.step_graph && task.has_fixed_shapes()) {
  task.prepare_training(compute_);
  task.use_scheduled(pipeline_.memory().inputs.scheduled);
  pipeline_.set_inputs(usual_inputs(0, config.optim.lr));
  if (compute_ == DType::kBFloat16) {
    for (const Named<ParameterStore*>& store : task.stores()) store.value->enable_bfloat16();
  }
  if (config.optim.clip_adaptive) {
    adaptive_clipping_.emplace(parameters_, *config.optim.clip_adaptive,
                               config.optim.clip_adaptive_head);
  }
  if (config.optim.clip_param_norm) {
    parameter_clipping_.emplace(parameters_, *config.optim.clip_param_norm);
  }
  if (train_.ema) average_.emplace(parameters_, *train_.ema, train_.ema_warmup);
  if (!ranks_) return;
  check_shares();
  gradient_sum_.emplace(
      parameters_, *ranks_,
      train_.reduce == ReducePrecision::kBFloat16 ? DType::kBFloat16 : DType::kFloat32);
  const auto rows = rows_of_rank(train_.batch_size, ranks_->rank(), ranks_->size());
  rows_ = Tensor::from(rows, {static_cast<std::int64_t>(rows.size())}).to(device);
}

void Learner::check_shares() const {
  const int size = ranks_->size();
  const auto most = rows_of_rank(train_.batch_size, 0, size).size();
  const auto fewest = rows_of_rank(train_.batch_size, size - 1, size).size();
  if (!task_.needs_equal_shares() || most == fewest) return;
  throw ConfigError(cat("train.batch_size ", train_.batch_size, " does not give ", size,
                        " processes equal shares, which this task needs; use a multiple of ",
                        2 * size));
}

Context Learner::context_of(const MicroBatch& part, std::int64_t step, Tape& tape) {
  Context ctx;
  ctx.tape = &tape;
  ctx.mode = {.training = !train_.freeze.backbone,
              .recompute = false,
              .checkpoint_blocks = train_.checkpoint_blocks,
              .compute = compute_};
  ctx.rng.seed = seed_;
  ctx.rng.step = static_cast<std::uint32_t>(step);
  if (device_ != kCpu) ctx.rng.device_step = &pipeline_.memory().inputs.step;
  ctx.rng.first_sample = static_cast<std::uint64_t>(part.begin);
  if (ranks_) {
    ctx.rng.rows = static_cast<const std::int64_t*>(rows_.slice(part.begin, part.end).raw());
    ctx.ranks = {ranks_, part.all_samples};
  }
  return ctx;
}

// Returns the inputs of a step near the start of a run of unknown length.
StepInputs Learner::usual_inputs(std::int64_t step, double lr) const {
  StepInputs inputs{lr, weight_decay_, static_cast<std::uint32_t>(step)};
  set_scheduled(inputs, task_.scheduled(0, {}));
  return inputs;
}

// Shows all micro-batches to a task that needs them before its first loss.
void Learner::preview(const Fields& batch, const std::vector<MicroBatch>& parts,
                      std::int64_t step) {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    Tape unused;
    Context ctx = context_of(parts[i], step, unused);
    ctx.tape = nullptr;
    ctx.mode.recompute = true;  // running statistics stay unchanged
    task_.preview(ctx, batch.rows(parts[i].begin, parts[i].end), i, parts.size());
  }
}

void Learner::accumulate(const Fields& batch, const MicroBatch& part, std::int64_t step) {
  Tape tape;
  Context ctx = context_of(part, step, tape);
  std::vector<Term> terms;
  Variable loss;
  {
    cuda::TraceRange range("forward");
    loss = task_.loss(ctx, batch.rows(part.begin, part.end), terms);
  }
  pipeline_.add_to_sums(loss.value(), terms, part.weight);
  if (gradient_sum_ && part.last) gradient_sum_->begin();
  cuda::TraceRange range("backward");
  tape.backward(loss, pipeline_.seed_of(part.weight));
}

// Averages over the ranks the buffers that layers update without a gradient, such as BatchNorm's
// running statistics. Each rank has updated them from its rows, unless norm.sync is set.
void Learner::average_buffers() {
  for (const Named<ParameterStore*>& store : task_.stores()) {
    Tensor& next = store.value->next_buffers();
    if (!next.defined()) continue;
    const Tensor all = ranks_->all_gather(next);
    run_on(device_, MeanRows{next.dtype(), 1, ranks_->size(), next.numel(), all.raw(), next.raw()});
  }
}

// Clips the gradients and decides on the device whether the step updates the parameters. `scale`:
// later factor of the gradients.
void Learner::decide_update(double scale) {
  StepPipeline::Memory& memory = pipeline_.memory();
  if (adaptive_clipping_) adaptive_clipping_->clip(scale);
  run_on(device_,
         SumSquares{parameters_.flat_size(),
                    static_cast<const float*>(parameters_.gradients().raw()), &memory.sum_squares});
  if (parameter_clipping_) parameter_clipping_->clip(scale);  // the logged norm is that before it
  run_on(device_,
         PrepareUpdate{static_cast<const float*>(pipeline_.sums().raw()), &memory.sum_squares,
                       scale, clip_, &memory.state, optimizer_->clip_epsilon(), optimizer_->beta1(),
                       optimizer_->beta2()});
  if (!has_late_) return;
  run_on(device_, PrepareLateUpdate{&memory.state, &memory.inputs, late_from_, optimizer_->beta1(),
                                    optimizer_->beta2(), &memory.late});
}

void Learner::update(std::size_t parts) {
  cuda::TraceRange range("update");
  StepPipeline::Memory& memory = pipeline_.memory();
  decide_update(1 / static_cast<double>(parts));
  optimizer_->step(&memory.inputs, &memory.state, has_late_ ? &memory.late : nullptr);
  for (const Named<ParameterStore*>& store : task_.stores()) {
    store.value->commit_buffers(&memory.state);
  }
  if (average_) average_->update(&memory.state);
  task_.after_update(&memory.state);
}

// Does the part of a step that is the same each time. On a CUDA device it is captured.
void Learner::run_step(const Fields& batch, const std::vector<MicroBatch>& parts,
                       std::int64_t step) {
  const StepProducts products(train_.precision);
  pipeline_.zero_sums();
  parameters_.zero_gradients();
  if (task_.needs_whole_batch() && parts.size() > 1) preview(batch, parts, step);
  for (const MicroBatch& part : parts) accumulate(batch, part, step);
  if (gradient_sum_) {
    gradient_sum_->finish(pipeline_.sums());
    average_buffers();
  }
  update(parts.size());
}

void Learner::start_step(const Fields& batch, const StepInputs& inputs) {
  const std::int64_t n = batch.count();
  DTN_CHECK(!ranks_ || n == rows_.numel(), "a rank's rows of a batch of ", train_.batch_size,
            " are ", rows_.numel(), ", not ", n);
  const std::vector<MicroBatch> parts = micro_batches_.of(n);
  gradient_scale_ = 1 / static_cast<double>(parts.size());
  pipeline_.start(inputs, signature_of(batch), parts.size(),
                  [&] { run_step(batch, parts, inputs.step); });
}

void Learner::start_step(const Fields& batch, std::int64_t step, double lr) {
  start_step(batch, usual_inputs(step, lr));
}

void Learner::add_gradients(const Fields& batch, std::int64_t step) {
  const StepProducts products(train_.precision);
  const std::vector<MicroBatch> parts = micro_batches_.of(batch.count());
  if (task_.needs_whole_batch() && parts.size() > 1) preview(batch, parts, step);
  for (const MicroBatch& part : parts) accumulate(batch, part, step);
}

StepReport Learner::step(const Fields& batch, std::int64_t step, double lr) {
  start_step(batch, step, lr);
  return finish_step();
}

}  // namespace dtn
