// The processes (ranks) that train one model together, and what they tell each other.
//
// Every rank makes the same calls in the same order. Sums are taken in the order of the ranks, so
// that all ranks see the same bits, and a run repeated with as many ranks sees them again. Bytes of
// host memory are moved by MPI, in a thread of its own that goes on while the model computes; those
// of a CUDA device by NCCL, in a stream of its own. A program that was not started by mpirun or
// srun is the only rank, and every call returns at once.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "dtn/core/tensor.h"

namespace dtn {

class DeviceTransport;
class Transport;

struct CommunicatorOptions {
  // A rank that nothing is heard of for this long, or that others have been waiting for, ends the
  // job (see src/dist/rank_watch.h). 0: never.
  double timeout_seconds = 20;
  // For all ranks to start, and to end, unless timeout_seconds is 0.
  double meeting_seconds = 300;
};

// How much time went where since the communicator was made.
struct CommunicationTime {
  double waiting = 0;  // the caller waited, seconds
  double moving = 0;   // something was on its way, whether or not the caller computed meanwhile
};

class Communicator {
 public:
  // The only rank.
  Communicator();
  // One of several. The transport is made, used and destroyed by a thread of the communicator's.
  using MakeTransport = std::function<std::unique_ptr<Transport>()>;
  explicit Communicator(const MakeTransport& make, const CommunicatorOptions& options = {});
  // Waits for the other ranks to get here, too.
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  bool is_first() const { return rank_ == 0; }
  bool alone() const { return size_ == 1; }
  // Among the ranks of this host.
  int local_rank() const { return local_rank_; }
  int local_size() const { return local_size_; }
  // "rank 3 on node7, process 4711".
  std::string name_of(int rank) const;

  // What moves the memory of the process's CUDA device. Needed before the first device tensor.
  void set_device_transport(std::unique_ptr<DeviceTransport> transport);

  // x becomes its sum over the ranks: float32, float64 or int64, on the host or the device.
  void all_reduce(Tensor x);
  // The same, under way when the call returns: x belongs to the communicator until finish(). With
  // kBFloat16, float32 values travel as bfloat16 and are added as float32 (on a device NCCL adds
  // them as bfloat16).
  void start_all_reduce(Tensor x, DType wire = DType::kFloat32);
  // On the host, waits for all that was started. On a device, what is enqueued for computing from
  // now on waits.
  void finish();
  // x becomes what it is at `root`; any type.
  void broadcast(Tensor x, int root = 0);
  // [size, ...]: x of every rank, in their order; any type, the same shape everywhere.
  Tensor all_gather(const Tensor& x);
  // Waits until every rank is here.
  void barrier();

  // Small agreements of the hosts.
  bool any(bool here);
  std::int64_t sum(std::int64_t here);

  CommunicationTime time() const;

  // Says what this rank is at meanwhile ("writing a checkpoint"), for messages about a rank that
  // the others wait for; and, where it may take long, that they are to wait half an hour.
  class Work {
   public:
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

  // While it lives this rank waits for others elsewhere than in a call of its communicator, such as
  // for a device that waits for theirs. Every rank must do so at the same place.
  class Waiting {
   public:
    explicit Waiting(Communicator& ranks);
    ~Waiting();
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;

   private:
    Communicator& ranks_;
  };

  // Ends all processes of the job with this exit code. To be called once the user has been told.
  [[noreturn]] void abort(int exit_code);

 private:
  class Engine;
  void wait();

  int rank_ = 0, size_ = 1, local_rank_ = 0, local_size_ = 1;
  std::unique_ptr<Engine> engine_;  // null when alone
  std::unique_ptr<DeviceTransport> device_;
};

}  // namespace dtn
