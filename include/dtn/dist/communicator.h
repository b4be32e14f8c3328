// The processes (ranks) that train one model together, and their communication.
//
// Every rank makes the same calls in the same order. Sums are taken in the order of the ranks, so
// all ranks get the same bits, and so does a repeated run with the same number of ranks. MPI moves
// host memory, in a separate thread that runs while the model computes. NCCL moves memory of a CUDA
// device, on a separate stream. A program that was not started by mpirun or srun is the only rank,
// and every call returns at once.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "dtn/core/tensor.h"

namespace dtn {

class DeviceTransport;
class Transport;

// Times after which a job with a silent rank ends.
struct CommunicatorOptions {
  // The job ends if a rank is silent for this long, or keeps others waiting for longer than its
  // allowance, which is at least this long (see src/dist/rank_watch.h). 0: never.
  double timeout_seconds = 20;
  // Time for all ranks to start, and to end, unless timeout_seconds is 0.
  double meeting_seconds = 300;
};

// Time spent since the communicator was made.
struct CommunicationTime {
  double waiting = 0;  // the caller waited, seconds
  double moving = 0;   // data was in transfer, also while the caller computed, seconds
};

// This process among the ranks of its job.
class Communicator {
 public:
  // Makes the only rank.
  Communicator();
  // Makes one of several ranks. A thread of the communicator makes, uses and destroys the
  // transport.
  using MakeTransport = std::function<std::unique_ptr<Transport>()>;
  explicit Communicator(const MakeTransport& make, const CommunicatorOptions& options = {});
  // Waits until the other ranks destroy theirs too.
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  bool is_root() const { return rank_ == 0; }
  bool is_single() const { return size_ == 1; }
  // Rank and size among the ranks of this host.
  int local_rank() const { return local_rank_; }
  int local_size() const { return local_size_; }
  // "rank 3 on node7, process 4711".
  std::string name_of(int rank) const;

  // Sets the transport for memory of the process's CUDA device. Required before the first device
  // tensor.
  void set_device_transport(std::unique_ptr<DeviceTransport> transport);

  // Replaces x by its sum over the ranks: float32, float64 or int64, on the host or the device.
  void all_reduce(Tensor x);
  // Starts all_reduce() and returns; x belongs to the communicator until finish(). With kBFloat16,
  // float32 values are sent as bfloat16 and added as float32 (on a device, NCCL adds them as
  // bfloat16).
  void start_all_reduce(Tensor x, DType wire = DType::kFloat32);
  // On the host, waits for all started reductions. On a device, work that is enqueued afterwards on
  // the compute stream waits.
  void finish();
  // Replaces x by its value on rank `root`; any type.
  void broadcast(Tensor x, int root = 0);
  // [size, ...]: x of every rank, in rank order; any type, the same shape on all ranks.
  Tensor all_gather(const Tensor& x);
  // Waits until every rank has called it.
  void barrier();

  // Reductions of a host value over all ranks.
  bool any(bool here);
  // The sum of the values of all ranks.
  std::int64_t sum(std::int64_t here);

  // Time that this rank spent on communication so far.
  CommunicationTime time() const;

  // Scope guard that names the current work of this rank ("writing a checkpoint"), for messages
  // about a rank that keeps others waiting. With kLong, the others wait up to half an hour.
  class Work {
   public:
    // Expected duration.
    enum Length { kShort, kLong };
    Work(Communicator& ranks, const char* what, Length length = kShort);
    ~Work();
    Work(const Work&) = delete;
    Work& operator=(const Work&) = delete;

   private:
    Communicator& ranks_;
    const char* what_before_ = nullptr;
    bool long_before_ = false;
  };

  // Scope guard for waiting on other ranks outside of a communicator call, such as for a device
  // that waits for other devices. Every rank must use it at the same place.
  class Waiting {
   public:
    explicit Waiting(Communicator& ranks);
    ~Waiting();
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;

   private:
    Communicator& ranks_;
  };

  // Ends all processes of the job with this exit code. Report the error to the user first.
  [[noreturn]] void abort(int exit_code);

 private:
  class Engine;
  void wait();

  int rank_ = 0, size_ = 1, local_rank_ = 0, local_size_ = 1;
  std::unique_ptr<Engine> engine_;  // null if there is one rank
  std::unique_ptr<DeviceTransport> device_;
};

}  // namespace dtn
