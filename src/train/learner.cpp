#include "dtn/train/learner.h"

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <vector>

#include "dtn/core/cuda_device.h"
#include "dtn/core/cuda_stream.h"
#include "dtn/ops/loss.h"
#include "dtn/ops/tokens.h"
#include "kernels/optimizer.h"
#include "kernels/pointwise.h"
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
  float loss_sum;
};

}  // namespace

// The step's memory, and on a device the reports that are on their way back.
struct Learner::Pipeline {
  explicit Pipeline(Device device, bool graph)
      : memory_tensor(Tensor::zeros({sizeof(StepMemory)}, DType::kUInt8, device)),
        memory(static_cast<StepMemory*>(memory_tensor.raw())),
        one(Tensor::full({1}, DType::kFloat32, 1.0).to(device)) {
    if (device == kCpu) return;
    replay.emplace(graph);
    pinned = cuda::allocate_pinned(slots.size() * sizeof(Pinned));
    for (Slot& slot : slots) slot.emplace();
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
  Tensor one;          // [1], the gradient of the loss
  std::optional<Replay> replay;
  std::shared_ptr<std::byte> pinned;
  // One more than may be in flight: the end of the last report is what idle time counts from.
  std::array<Slot, kInFlight + 1> slots;
  std::size_t started = 0, finished = 0;
  std::deque<StepReport> done;  // on the CPU
};

Learner::Learner(const ExperimentConfig& config, Device device)
    : train_(config.train),
      clip_(config.optim.clip_grad_norm.value_or(0)),
      seed_(config.seed),
      compute_(compute_dtype_of(config.train.precision, device)),
      device_(device),
      model_(
          std::make_unique<VisionTransformer>(config.model, config.seed, DType::kFloat32, device)),
      optimizer_(config.optim, model_->parameters()),
      pipeline_(std::make_unique<Pipeline>(device, config.train.step_graph)) {
  if (device.type == DeviceType::kCuda) cuda::allow_tf32(train_.precision == Precision::kTf32);
  if (compute_ == DType::kBFloat16) model_->parameters().enable_bfloat16();
  if (train_.ema) average_.emplace(model_->parameters(), *train_.ema);
}

Learner::~Learner() {
  if (device_ == kCpu) return;
  try {
    cuda::synchronize();  // before what the device still writes to is freed
  } catch (const Error&) {
    // The device has failed; whoever waited for a report has been told.
  }
}

void Learner::accumulate(const Tensor& images, const StepLabels& labels, std::int64_t first,
                         std::int64_t count, std::int64_t step) {
  Tape tape;
  Context ctx;
  ctx.tape = &tape;
  ctx.training = true;
  ctx.seed = seed_;
  ctx.step = static_cast<std::uint32_t>(step);
  if (device_ != kCpu) ctx.device_step = &pipeline_->memory->inputs.step;
  ctx.first_sample = static_cast<std::uint64_t>(first);
  Variable logits;
  {
    cuda::TraceRange range("forward");
    logits = model_->forward(ctx, images.slice(first, first + count), compute_,
                             train_.checkpoint_blocks);
  }
  ops::Targets targets{labels.own.slice(first, first + count), {}, train_.label_smoothing};
  if (labels.partner.defined()) {
    targets.partner_labels = labels.partner.slice(first, first + count);
    targets.label_share = labels.share.slice(first, first + count);
  }
  ops::LossResult loss = ops::cross_entropy(ctx, ops::cast(ctx, logits, DType::kFloat32), targets);
  run_on(device_, Mean{DType::kFloat32, 1, loss.mean.value().raw(), &pipeline_->memory->loss_sum,
                       1.0, true});
  cuda::TraceRange range("backward");
  tape.backward(loss.mean, pipeline_->one);
}

// Everything of a step that is the same each time: on a device it is captured.
void Learner::run_step(const Tensor& images, const StepLabels& labels, std::int64_t step) {
  std::int64_t n = images.dim(0);
  std::int64_t micro = std::min<std::int64_t>(train_.micro_batch.value_or(train_.batch_size), n);
  DTN_CHECK(n % micro == 0, "a batch of ", n, " does not divide into micro-batches of ", micro);
  StepMemory* memory = pipeline_->memory;
  pipeline_->memory_tensor.slice(offsetof(StepMemory, sum_squares), sizeof(StepMemory)).zero();
  ParameterStore& store = model_->parameters();
  store.zero_gradients();
  for (std::int64_t first = 0; first < n; first += micro) {
    accumulate(images, labels, first, micro, step);
  }
  cuda::TraceRange range("update");
  run_on(device_, SumSquares{store.flat_size(), static_cast<const float*>(store.gradients().raw()),
                             &memory->sum_squares});
  run_on(device_,
         PrepareUpdate{&memory->loss_sum, &memory->sum_squares,
                       static_cast<double>(micro) / static_cast<double>(n), clip_, &memory->state});
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
  marks.end.wait();
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
