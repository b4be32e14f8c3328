#include "train/learner.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "core/cuda_device.h"
#include "core/cuda_stream.h"
#include "data/feed/loader.h"
#include "dtn/ops/loss.h"
#include "dtn/ops/tokens.h"
#include "kernels/optimizer/optimizer.h"
#include "kernels/pointwise/pointwise.h"
#include "train/gradient_sum.h"
#include "train/replay.h"

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

// What a step reads and leaves beside tensors, where the model is.
struct StepMemory {
  StepInputs inputs;
  UpdateState state;
  double sum_squares;
};

// Of a global batch, for each of the ranks.
std::vector<std::int64_t> rows_of_all(std::int64_t batch_size, const Communicator& ranks) {
  std::vector<std::int64_t> rows;
  for (int r = 0; r < ranks.size(); ++r) {
    rows.push_back(static_cast<std::int64_t>(rows_of_rank(batch_size, r, ranks.size()).size()));
  }
  return rows;
}

}  // namespace

// Rows [begin, end) of those of this rank.
struct Learner::MicroBatch {
  std::int64_t begin, end;
  std::int64_t all_samples;  // of all ranks' parts of this number
  // Rows to those that the parts of all ranks have together on average: how much its mean counts.
  double weight;
  bool last;
};

// The step's memory, and on a device the reports that are on their way back.
struct Learner::Pipeline {
  explicit Pipeline(Device device, bool graph)
      : memory_tensor(Tensor::zeros({sizeof(StepMemory)}, DType::kUInt8, device)),
        memory(static_cast<StepMemory*>(memory_tensor.raw())),
        one(Tensor::full({1}, DType::kFloat32, 1.0).to(device)),
        loss_sum(Tensor::zeros({1}, DType::kFloat32, device)) {
    if (device == kCpu) return;
    replay.emplace(graph);
    pinned = cuda::allocate_pinned(slots.size() * sizeof(Pinned));
    for (Slot& slot : slots) slot = Marks();
  }

  // Page-locked: what goes to the device with a step, and what comes back.
  struct Pinned {
    StepInputs inputs;
    UpdateState report;
  };
  struct Marks {
    cuda::Event begin, end;
    bool idle_known = false;
  };
  using Slot = std::optional<Marks>;

  Pinned& pinned_at(std::size_t n) {
    return reinterpret_cast<Pinned*>(pinned.get())[n % slots.size()];
  }
  Marks& marks_at(std::size_t n) { return *slots[n % slots.size()]; }

  Tensor memory_tensor;
  StepMemory* memory;  // where the model is
  // [1], the gradient of a micro-batch's mean loss, for one of that weight.
  Tensor seed_of(double weight) {
    if (weight == 1) return one;
    Tensor& seed = seeds[weight];
    if (!seed.defined()) seed = Tensor::full({1}, DType::kFloat32, weight).to(one.device());
    return seed;
  }

  Tensor one;
  std::map<double, Tensor> seeds;
  Tensor loss_sum;  // [1], of the micro-batches' mean losses by their weights
  // Where there are several ranks.
  std::optional<GradientSum> gradient_sum;
  Tensor rows;  // [n] int64, the places of this rank's rows in the global batch
  std::optional<Replay> replay;
  std::shared_ptr<std::byte> pinned;
  // One more than may be in flight: the end of the last report is what idle time counts from.
  std::array<Slot, kInFlight + 1> slots;
  std::size_t started = 0, finished = 0;
  std::deque<StepReport> done;  // on the CPU
};

Learner::Learner(const ExperimentConfig& config, Device device, Communicator* ranks)
    : train_(config.train),
      clip_(config.optim.clip_grad_norm.value_or(0)),
      seed_(config.seed),
      compute_(compute_dtype_of(config.train.precision, device)),
      device_(device),
      ranks_(ranks && !ranks->alone() ? ranks : nullptr),
      model_(
          std::make_unique<VisionTransformer>(config.model, config.seed, DType::kFloat32, device)),
      optimizer_(config.optim, model_->parameters()),
      pipeline_(std::make_unique<Pipeline>(device, config.train.step_graph)) {
  if (device.type == DeviceType::kCuda) cuda::allow_tf32(train_.precision == Precision::kTf32);
  if (compute_ == DType::kBFloat16) model_->parameters().enable_bfloat16();
  if (train_.ema) average_.emplace(model_->parameters(), *train_.ema);
  if (ranks_) share_batches();
}

// Prepares for steps on this rank's rows of a batch.
void Learner::share_batches() {
  const std::int64_t batch = train_.batch_size;
  rows_of_ranks_ = rows_of_all(batch, *ranks_);
  const auto parts = static_cast<std::int64_t>(cut(rows_of_ranks_[0]).size());
  if (std::ranges::min(rows_of_ranks_) < parts) {
    throw ConfigError(cat("train.batch_size ", batch, " cannot be shared by ", ranks_->size(),
                          " processes in micro-batches of ",
                          train_.micro_batch.value_or(train_.batch_size),
                          "; use fewer processes, or a batch_size that is a multiple of 2 x ",
                          ranks_->size(), " x micro_batch"));
  }
  const DType wire =
      train_.reduce == ReducePrecision::kBFloat16 ? DType::kBFloat16 : DType::kFloat32;
  Pipeline& p = *pipeline_;
  p.gradient_sum.emplace(model_->parameters(), *ranks_, wire);
  const std::vector<std::int64_t> rows = rows_of_rank(batch, ranks_->rank(), ranks_->size());
  p.rows = Tensor::from(rows, {static_cast<std::int64_t>(rows.size())}).to(device_);
}

Learner::~Learner() {
  if (device_ == kCpu) return;
  try {
    cuda::synchronize();  // before what the device still writes to is freed
  } catch (const Error&) {
    // The device has failed; whoever waited for a report has been told.
  }
}

// The micro-batches of a step on that many rows. Ranks have the same number of them, so that layers
// that look at the whole batch can meet.
std::vector<Learner::MicroBatch> Learner::cut(std::int64_t rows) const {
  const std::int64_t most = train_.micro_batch.value_or(train_.batch_size);
  std::int64_t parts = 1, all = rows;
  if (ranks_) {
    parts = (std::ranges::max(rows_of_ranks_) + most - 1) / most;
    all = train_.batch_size;
  } else {
    const std::int64_t micro = std::min(most, rows);
    DTN_CHECK(rows % micro == 0, "a batch of ", rows, " does not divide into micro-batches of ",
              micro);
    parts = rows / micro;
  }
  auto part_of = [parts](std::int64_t n, std::int64_t i) {
    return std::pair(n * i / parts, n * (i + 1) / parts);
  };
  const double average = static_cast<double>(all) / static_cast<double>(parts);
  std::vector<MicroBatch> micro_batches;
  for (std::int64_t i = 0; i < parts; ++i) {
    const auto [begin, end] = part_of(rows, i);
    std::int64_t all_samples = 0;
    for (std::int64_t n : rows_of_ranks_) all_samples += part_of(n, i).second - part_of(n, i).first;
    micro_batches.push_back(
        {begin, end, all_samples, static_cast<double>(end - begin) / average, i + 1 == parts});
  }
  return micro_batches;
}

void Learner::accumulate(const Tensor& images, const StepLabels& labels, const MicroBatch& part,
                         std::int64_t step) {
  const auto rows_of = [&part](const Tensor& t) { return t.slice(part.begin, part.end); };
  Pipeline& p = *pipeline_;
  Tape tape;
  Context ctx;
  ctx.tape = &tape;
  ctx.training = true;
  ctx.seed = seed_;
  ctx.step = static_cast<std::uint32_t>(step);
  if (device_ != kCpu) ctx.device_step = &pipeline_->memory->inputs.step;
  ctx.first_sample = static_cast<std::uint64_t>(part.begin);
  if (ranks_) {
    ctx.ranks = ranks_;
    ctx.rows = static_cast<const std::int64_t*>(rows_of(p.rows).raw());
    ctx.all_samples = part.all_samples;
    if (part.last) {
      ctx.on_whole_gradients = [&p](std::int64_t from) { p.gradient_sum->whole_from(from); };
    }
  }
  Variable logits;
  {
    cuda::TraceRange range("forward");
    logits = model_->forward(ctx, rows_of(images), compute_, train_.checkpoint_blocks);
  }
  ops::Targets targets{rows_of(labels.own), {}, train_.label_smoothing};
  if (labels.partner.defined()) {
    targets.partner_labels = rows_of(labels.partner);
    targets.label_share = rows_of(labels.share);
  }
  ops::LossResult loss = ops::cross_entropy(ctx, ops::cast(ctx, logits, DType::kFloat32), targets);
  run_on(device_,
         Mean{DType::kFloat32, 1, loss.mean.value().raw(), p.loss_sum.raw(), part.weight, true});
  cuda::TraceRange range("backward");
  tape.backward(loss.mean, p.seed_of(part.weight));
}

// What layers have gathered without a gradient, such as BatchNorm's running statistics: each rank
// from its own rows, unless norm.sync is set.
void Learner::average_buffers() {
  Tensor& next = model_->parameters().next_buffers();
  if (!next.defined()) return;
  const Tensor all = ranks_->all_gather(next);
  run_on(device_, MeanRows{next.dtype(), 1, ranks_->size(), next.numel(), all.raw(), next.raw()});
}

// Everything of a step that is the same each time: on a device it is captured.
void Learner::run_step(const Tensor& images, const StepLabels& labels, std::int64_t step) {
  Pipeline& p = *pipeline_;
  const std::int64_t n = images.dim(0);
  DTN_CHECK(!ranks_ || n == p.rows.numel(), "a rank's rows of a batch of ", train_.batch_size,
            " are ", p.rows.numel(), ", not ", n);
  const std::vector<MicroBatch> parts = cut(n);
  StepMemory* memory = p.memory;
  p.memory_tensor.slice(offsetof(StepMemory, sum_squares), sizeof(StepMemory)).zero();
  p.loss_sum.zero();
  ParameterStore& store = model_->parameters();
  store.zero_gradients();
  for (const MicroBatch& part : parts) accumulate(images, labels, part, step);
  if (ranks_) {
    p.gradient_sum->finish(p.loss_sum);
    average_buffers();
  }
  cuda::TraceRange range("update");
  run_on(device_, SumSquares{store.flat_size(), static_cast<const float*>(store.gradients().raw()),
                             &memory->sum_squares});
  const double scale = 1 / static_cast<double>(parts.size());
  run_on(device_, PrepareUpdate{static_cast<const float*>(p.loss_sum.raw()), &memory->sum_squares,
                                scale, clip_, &memory->state});
  optimizer_.step(&memory->inputs, &memory->state);
  store.settle_buffers(&memory->state);
  if (average_) average_->update(&memory->state);
}

void Learner::start_step(const Tensor& images, const StepLabels& labels, std::int64_t step,
                         double lr) {
  Pipeline& p = *pipeline_;
  StepInputs inputs{lr, static_cast<std::uint32_t>(step)};
  if (device_ == kCpu) {
    p.memory->inputs = inputs;
    run_step(images, labels, step);
    const UpdateState& state = p.memory->state;
    p.done.push_back({state.loss, state.grad_norm, state.finite != 0, std::nullopt});
    return;
  }
  DTN_CHECK(unfinished() < kInFlight, "a step is started while ", kInFlight,
            " await their reports");
  cuda::TraceRange range("step");
  Pipeline::Pinned& pinned = p.pinned_at(p.started);
  Pipeline::Marks& marks = p.marks_at(p.started);
  pinned.inputs = inputs;
  // Only then was nothing but steps enqueued since the last one.
  marks.idle_known = unfinished() > 0;
  marks.begin.record();
  cuda::copy_to_device(&p.memory->inputs, &pinned.inputs, sizeof inputs);
  std::vector<std::uintptr_t> signature{static_cast<std::uintptr_t>(images.dim(0))};
  for (const Tensor* read : {&images, &labels.own, &labels.partner, &labels.share}) {
    signature.push_back(reinterpret_cast<std::uintptr_t>(read->raw()));
  }
  p.replay->run(signature, [&] { run_step(images, labels, step); });
  cuda::copy_to_host(&pinned.report, &p.memory->state, sizeof(UpdateState));
  marks.end.record();
  ++p.started;
}

StepReport Learner::finish_step() {
  DTN_CHECK(unfinished() > 0, "there is no step to finish");
  Pipeline& p = *pipeline_;
  if (device_ == kCpu) {
    StepReport report = p.done.front();
    p.done.pop_front();
    return report;
  }
  Pipeline::Marks& marks = p.marks_at(p.finished);
  {
    std::optional<Communicator::Waiting> waiting;  // for the other ranks' devices, too
    if (ranks_) waiting.emplace(*ranks_);
    marks.end.wait();
  }
  const UpdateState& state = p.pinned_at(p.finished).report;
  StepReport report{state.loss, state.grad_norm, state.finite != 0, 0.0};
  if (marks.idle_known) {
    report.idle_seconds = 1e-3 * marks.begin.since(p.marks_at(p.finished + p.slots.size() - 1).end);
  }
  ++p.finished;
  return report;
}

std::size_t Learner::unfinished() const {
  const Pipeline& p = *pipeline_;
  return device_ == kCpu ? p.done.size() : p.started - p.finished;
}

StepReport Learner::step(const Tensor& images, const StepLabels& labels, std::int64_t step,
                         double lr) {
  start_step(images, labels, step, lr);
  return finish_step();
}

std::int64_t Learner::updates() const {
  StepMemory memory;
  Tensor host = pipeline_->memory_tensor.to(kCpu);
  std::memcpy(&memory, host.raw(), sizeof memory);
  return memory.state.updates;
}

void Learner::set_updates(std::int64_t n) {
  UpdateState state;
  state.updates = n;
  Tensor host = Tensor::empty({sizeof state}, DType::kUInt8);
  std::memcpy(host.raw(), &state, sizeof state);
  std::int64_t at = offsetof(StepMemory, state);
  pipeline_->memory_tensor.slice(at, at + host.numel()).copy_from(host);
}

}  // namespace dtn
