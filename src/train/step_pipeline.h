// Steps on their way: what a step reads and leaves beside tensors, where the model is, and on a
// CUDA device the reports that are on their way back.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/cuda_stream.h"
#include "dtn/dist/communicator.h"
#include "dtn/tasks/task.h"
#include "kernels/optimizer/optimizer.h"
#include "train/replay.h"

namespace dtn {

struct StepReport {
  double loss = 0;       // mean over the global batch
  double grad_norm = 0;  // before clipping
  bool finite = true;    // false: the update was left out and the weights are untouched
  // Time for which a CUDA device had nothing to do before this step; nothing on the CPU.
  std::optional<double> idle_seconds;
  std::vector<std::pair<std::string, double>> terms;  // those the task logs, means like the loss
};

class StepPipeline {
 public:
  static constexpr std::size_t kInFlight = 2;

  // In the memory of the device.
  struct Memory {
    StepInputs inputs;
    UpdateState state;
    double sum_squares;
  };

  // `graph`: on a CUDA device, replay each step as one captured graph.
  StepPipeline(Device device, bool graph);
  // Waits for the device, before what it still writes to is freed.
  ~StepPipeline();
  StepPipeline(const StepPipeline&) = delete;
  StepPipeline& operator=(const StepPipeline&) = delete;

  Memory& memory() { return *memory_; }
  // [1 + Task::kMostTerms] float32: the micro-batches' mean losses by their weights, added up, and
  // the same of the terms behind them.
  Tensor& sums() { return sums_; }
  void zero_sums();
  // Adds a micro-batch's loss and terms to the sums. The terms must be those of every other one.
  void add_to_sums(const Tensor& loss, const std::vector<Term>& terms, double weight);
  // [1], the gradient of a micro-batch's mean loss, for one of that weight.
  Tensor seed_of(double weight);

  // Does the work of a step, or enqueues it. `signature` is what it depends on beside memory that
  // never moves (see Replay); `parts` the number of micro-batches.
  void start(const StepInputs& inputs, const std::vector<std::uintptr_t>& signature,
             std::size_t parts, const std::function<void()>& work);
  // The report of the oldest step that was started; waits for it, and meanwhile for the devices of
  // the other ranks, if there are any.
  StepReport finish(Communicator* ranks);
  std::size_t unfinished() const;

  // Updates carried out; waits for what is under way.
  std::int64_t updates() const;
  void set_updates(std::int64_t n);

 private:
  // Page-locked: what goes to the device with a step, and what comes back.
  struct Pinned {
    StepInputs inputs;
    UpdateState report;
    float sums[1 + Task::kMostTerms];
  };
  struct Marks {
    cuda::Event begin, end;
    bool idle_known = false;
  };
  // One more than may be in flight: the end of the last report is what idle time counts from.
  static constexpr std::size_t kSlots = kInFlight + 1;

  Pinned& pinned_at(std::size_t n) { return reinterpret_cast<Pinned*>(pinned_.get())[n % kSlots]; }
  Marks& marks_at(std::size_t n) { return *marks_[n % kSlots]; }
  StepReport report_of(const UpdateState& state, const float* sums) const;

  Device device_;
  Tensor memory_tensor_;
  Memory* memory_;
  Tensor sums_;
  std::vector<std::string> terms_;  // names
  Tensor one_;
  std::map<double, Tensor> seeds_;
  double scale_ = 1;  // 1 / micro-batches
  std::optional<Replay> replay_;
  std::shared_ptr<std::byte> pinned_;
  std::array<std::optional<Marks>, kSlots> marks_;
  std::size_t started_ = 0, finished_ = 0;
  std::deque<StepReport> done_;  // on the CPU
};

}  // namespace dtn
