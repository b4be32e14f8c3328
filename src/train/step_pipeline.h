// Steps in flight: the inputs and results of a step that are not tensors of the model, and on a
// CUDA device the reports that have not arrived yet.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/cuda_replay.h"
#include "core/cuda_stream.h"
#include "dtn/dist/communicator.h"
#include "dtn/tasks/task.h"
#include "kernels/optimizer/optimizer.h"

namespace dtn {

struct StepReport {
  double loss = 0;       // mean over the global batch
  double grad_norm = 0;  // before clipping
  bool finite = true;    // false: the update was skipped and the weights are unchanged
  // Time for which a CUDA device was idle before this step; unset on the CPU.
  std::optional<double> idle_seconds;
  // Terms that the task logs: means like the loss, or over a part of the samples. NaN: no sample.
  std::vector<std::pair<std::string, double>> terms;
  // Scheduled values that are logged, see RunSchedule; set by the trainer.
  std::vector<std::pair<std::string, double>> scheduled{};
  // Share of the samples in each term's mean; empty: each is over all samples.
  std::vector<double> shares{};
};

class StepPipeline {
 public:
  static constexpr std::size_t kInFlight = 2;
  static constexpr std::size_t kSums = 1 + 2 * Task::kMaxTerms;

  // Lies in device memory.
  struct Memory {
    StepInputs inputs;
    UpdateState state;
    UpdateState late;  // of late parameters; zero if there are none
    double sum_squares;
  };

  // `graph`: on a CUDA device, replay each step as one captured graph.
  StepPipeline(Device device, bool graph);
  // Waits for the device before freeing memory that the device may still write.
  ~StepPipeline();
  StepPipeline(const StepPipeline&) = delete;
  StepPipeline& operator=(const StepPipeline&) = delete;

  Memory& memory() { return *memory_; }
  // [kSums] float32: the weighted sum of the micro-batches' mean losses, then the weighted sums of
  // their terms, then those of the terms' shares.
  Tensor& sums() { return sums_; }
  void zero_sums();
  // Adds a micro-batch's loss and terms to the sums. All micro-batches must have the same terms.
  void add_to_sums(const Tensor& loss, const std::vector<Term>& terms, double weight);
  // Returns the gradient [1] of the mean loss of a micro-batch with that weight.
  Tensor seed_of(double weight);

  // Does the work of a step, or enqueues it. `signature` holds everything that the work depends on,
  // except memory that never moves (see Replay). `parts` is the number of micro-batches.
  void start(const StepInputs& inputs, const std::vector<std::uintptr_t>& signature,
             std::size_t parts, const std::function<void()>& work);
  // Waits for the oldest step in flight and returns its report. This includes waiting for the
  // devices of the other ranks, if there are any.
  StepReport finish(Communicator* ranks);
  std::size_t unfinished() const;

  // Returns the number of updates made. Waits for the steps in flight.
  std::int64_t updates() const { return read_memory().state.updates; }
  void set_updates(std::int64_t n) { write_updates(offsetof(Memory, state), n); }
  // The same for late parameters.
  std::int64_t late_updates() const { return read_memory().late.updates; }
  void set_late_updates(std::int64_t n) { write_updates(offsetof(Memory, late), n); }
  // Sets the inputs for work outside of a step.
  void set_inputs(const StepInputs& inputs);

 private:
  // Page-locked memory: the data that goes to the device with a step, and the data that comes back.
  struct Pinned {
    StepInputs inputs;
    UpdateState report;
    float sums[kSums];
  };
  struct Marks {
    cuda::Event begin, end;
    bool idle_known = false;
  };
  // One more than kInFlight, because idle time counts from the end of the step that was reported
  // last.
  static constexpr std::size_t kSlots = kInFlight + 1;

  Pinned& pinned_at(std::size_t n) { return reinterpret_cast<Pinned*>(pinned_.get())[n % kSlots]; }
  Marks& marks_at(std::size_t n) { return *marks_[n % kSlots]; }
  Memory read_memory() const;
  // Writes an UpdateState with n updates at a byte of the memory.
  void write_updates(std::size_t at, std::int64_t n);
  StepReport report_of(const UpdateState& state, const float* sums) const;

  Device device_;
  Tensor memory_tensor_;
  Memory* memory_;
  Tensor sums_;
  std::vector<std::string> terms_;  // names
  std::vector<bool> has_share_;     // of each term
  Tensor one_;
  std::map<double, Tensor> seeds_;
  double scale_ = 1;  // 1 / micro-batches
  std::optional<cuda::Replay> replay_;
  std::shared_ptr<std::byte> pinned_;
  std::array<std::optional<Marks>, kSlots> marks_;
  std::size_t started_ = 0, finished_ = 0;
  std::deque<StepReport> done_;  // CPU only
};

}  // namespace dtn
