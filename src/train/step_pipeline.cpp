#include "train/step_pipeline.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "core/cuda_device.h"
#include "kernels/pointwise/pointwise.h"

namespace dtn {
namespace {

// Removes the sign of a NaN, which would be printed. Returns any other value unchanged.
double without_sign(double value) {
  return std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : value;
}

}  // namespace

StepPipeline::StepPipeline(Device device, bool graph)
    : device_(device),
      memory_tensor_(Tensor::zeros({sizeof(Memory)}, DType::kUInt8, device)),
      memory_(static_cast<Memory*>(memory_tensor_.raw())),
      sums_(Tensor::zeros({kSums}, DType::kFloat32, device)),
      one_(Tensor::full({1}, DType::kFloat32, 1.0).to(device)) {
  if (device == kCpu) return;
  replay_.emplace(graph);
  pinned_ = cuda::allocate_pinned(kSlots * sizeof(Pinned));
  for (std::optional<Marks>& marks : marks_) marks = Marks();
}

StepPipeline::~StepPipeline() {
  if (device_ == kCpu) return;
  try {
    cuda::synchronize();
  } catch (const Error&) {
    // The device has failed; finish() reports the error.
  }
}

void StepPipeline::zero_sums() {
  memory_tensor_.slice(offsetof(Memory, sum_squares), sizeof(Memory)).zero();
  sums_.zero();
}

void StepPipeline::add_to_sums(const Tensor& loss, const std::vector<Term>& terms, double weight) {
  DTN_CHECK(terms.size() <= Task::kMaxTerms, "a task logs ", terms.size(), " terms; at most ",
            Task::kMaxTerms, " are kept");
  const auto add = [&](const Tensor& value, std::size_t place) {
    const auto at = static_cast<std::int64_t>(place);
    run_on(device_,
           Mean{DType::kFloat32, 1, value.raw(), sums_.slice(at, at + 1).raw(), weight, true});
  };
  add(loss, 0);
  terms_.clear();
  has_share_.clear();
  for (const Term& term : terms) {
    terms_.push_back(term.name);
    has_share_.push_back(term.share.defined());
    add(term.value, terms_.size());
    if (term.share.defined()) add(term.share, Task::kMaxTerms + terms_.size());
  }
}

Tensor StepPipeline::seed_of(double weight) {
  if (weight == 1) return one_;
  Tensor& seed = seeds_[weight];
  if (!seed.defined()) seed = Tensor::full({1}, DType::kFloat32, weight).to(device_);
  return seed;
}

void StepPipeline::start(const StepInputs& inputs, const std::vector<std::uintptr_t>& signature,
                         std::size_t parts, const std::function<void()>& work) {
  scale_ = 1 / static_cast<double>(parts);
  if (device_ == kCpu) {
    memory_->inputs = inputs;
    work();
    done_.push_back(report_of(memory_->state, sums_.data<float>()));
    return;
  }
  DTN_CHECK(unfinished() < kInFlight, "a step is started while ", kInFlight,
            " await their reports");
  cuda::TraceRange range("step");
  Pinned& pinned = pinned_at(started_);
  Marks& marks = marks_at(started_);
  pinned.inputs = inputs;
  // The idle time is known only if a step is in flight. Otherwise other work may have been enqueued
  // since the previous step.
  marks.idle_known = unfinished() > 0;
  marks.begin.record();
  cuda::copy_to_device(&memory_->inputs, &pinned.inputs, sizeof inputs);
  replay_->run(signature, work);
  cuda::copy_to_host(&pinned.report, &memory_->state, sizeof(UpdateState));
  cuda::copy_to_host(pinned.sums, sums_.raw(), sums_.nbytes());
  marks.end.record();
  ++started_;
}

StepReport StepPipeline::report_of(const UpdateState& state, const float* sums) const {
  StepReport report{without_sign(state.loss),
                    without_sign(state.grad_norm),
                    state.finite != 0,
                    std::nullopt,
                    {},
                    {}};
  for (std::size_t i = 0; i < terms_.size(); ++i) {
    const double mean = static_cast<double>(sums[1 + i]) * scale_;
    const double share =
        has_share_[i] ? static_cast<double>(sums[1 + Task::kMaxTerms + i]) * scale_ : 1;
    report.terms.emplace_back(terms_[i], has_share_[i] ? without_sign(mean / share) : mean);
    report.shares.push_back(share);
  }
  return report;
}

StepReport StepPipeline::finish(Communicator* ranks) {
  DTN_CHECK(unfinished() > 0, "there is no step to finish");
  if (device_ == kCpu) {
    StepReport report = std::move(done_.front());
    done_.pop_front();
    return report;
  }
  Marks& marks = marks_at(finished_);
  {
    std::optional<Communicator::Waiting> waiting;  // this device waits for the other ranks' devices
    if (ranks) waiting.emplace(*ranks);
    marks.end.wait();
  }
  const Pinned& pinned = pinned_at(finished_);
  StepReport report = report_of(pinned.report, pinned.sums);
  report.idle_seconds = 0;
  if (marks.idle_known) {
    report.idle_seconds = 1e-3 * marks.begin.since(marks_at(finished_ + kSlots - 1).end);
  }
  ++finished_;
  return report;
}

std::size_t StepPipeline::unfinished() const {
  return device_ == kCpu ? done_.size() : started_ - finished_;
}

StepPipeline::Memory StepPipeline::read_memory() const {
  Memory memory;
  const Tensor host = memory_tensor_.to(kCpu);
  std::memcpy(&memory, host.raw(), sizeof memory);
  return memory;
}

void StepPipeline::set_inputs(const StepInputs& inputs) {
  Tensor host = Tensor::empty({sizeof inputs}, DType::kUInt8);
  std::memcpy(host.raw(), &inputs, sizeof inputs);
  const std::int64_t at = offsetof(Memory, inputs);
  memory_tensor_.slice(at, at + host.numel()).copy_from(host);
}

void StepPipeline::write_updates(std::size_t at, std::int64_t n) {
  UpdateState state;
  state.updates = n;
  Tensor host = Tensor::empty({sizeof state}, DType::kUInt8);
  std::memcpy(host.raw(), &state, sizeof state);
  const auto begin = static_cast<std::int64_t>(at);
  memory_tensor_.slice(begin, begin + host.numel()).copy_from(host);
}

}  // namespace dtn
