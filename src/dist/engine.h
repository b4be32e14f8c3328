// The thread that drives a transport. It accepts operations, advances them while the program
// computes, and exchanges notes with the other ranks that show that they are alive.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "dist/operations.h"
#include "dist/rank_watch.h"
#include "dist/transport.h"
#include "dtn/dist/communicator.h"

namespace dtn {

class Communicator::Engine {
 public:
  // Returns once the transport exists; throws the exception of its creation.
  Engine(const MakeTransport& make, const CommunicatorOptions& options);
  // Ends the thread and the transport. No operation may be running.
  ~Engine();

  void submit(std::unique_ptr<Operation> operation);
  // Waits until all operations are done.
  void wait();
  // Mark a time in which the caller waits for other ranks elsewhere, for example at a device.
  void begin_waiting();
  void end_waiting();
  // Present activity of this rank; begin_work() returns the previous one.
  struct Activity {
    const char* what = nullptr;
    bool is_long = false;
  };
  Activity begin_work(Activity activity);
  void end_work(Activity before);
  // Ends the job when `device` reports a failure; null stops watching.
  void watch(const DeviceTransport* device);
  CommunicationTime time() const;
  // Names of the ranks, for messages.
  void set_names(std::vector<std::string> names);
  std::string name_of(int r) const;
  [[noreturn]] void abort(int exit_code);

  int rank = 0, size = 1, local_rank = 0, local_size = 1;

 private:
  using Clock = std::chrono::steady_clock;

  void run(const MakeTransport& make);
  // Waits until `done` holds, which the engine's thread brings about. Ends the job if the thread
  // has been in the transport for `patience` seconds. The thread itself finds the faults of other
  // ranks, so only its caller can see that the thread is stuck.
  template <class Done>
  void await(std::unique_lock<std::mutex>& lock, double patience, const char* where, Done done);
  void serve();
  // Advances all running operations once; returns false if nothing moved.
  bool advance();
  void tell_and_judge();
  void forgive(double gap);
  void end_job(const std::string& why);
  RankNote note() const;
  double now() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

  const double timeout_, meeting_seconds_;
  const Clock::time_point start_ = Clock::now();
  std::unique_ptr<Transport> transport_;            // used by the thread only
  std::unique_ptr<RankWatch> watch_;                // used by the thread only
  double last_note_ = 0;                            // used by the thread only
  std::deque<std::unique_ptr<Operation>> running_;  // used by the thread only

  mutable std::mutex mutex_;
  std::condition_variable wake_, done_;
  std::deque<std::unique_ptr<Operation>> submitted_;
  std::size_t unfinished_ = 0;
  bool ready_ = false, stopping_ = false, ended_ = false;
  double served_at_ = 0;  // when the thread was last outside the transport
  int aborting_ = -1;
  std::exception_ptr error_;
  // Contents of the notes; guarded by the mutex.
  std::uint64_t entered_ = 0, finished_ = 0;
  double waiting_since_ = -1;  // -1: this rank computes
  double computing_since_ = 0, longest_computing_ = 0;
  Activity activity_;
  double long_since_ = 0, long_seconds_ = 0;  // long work since the last wait
  const DeviceTransport* device_ = nullptr;
  std::vector<std::string> names_;
  CommunicationTime time_;

  std::thread thread_;  // last: it uses all of the above
};

}  // namespace dtn
