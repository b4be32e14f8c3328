// The thread that drives a transport: it takes operations on, keeps them going while the program
// computes, and exchanges signs of life with the other ranks.
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
  // Returns once the transport is there; throws what making it threw.
  Engine(const MakeTransport& make, const CommunicatorOptions& options);
  // Ends the thread and with it the transport. Nothing may be under way.
  ~Engine();

  void submit(std::unique_ptr<Operation> operation);
  // Until all is done.
  void wait();
  // Between the two the caller waits for others elsewhere, such as at a device.
  void begin_waiting();
  void end_waiting();
  // What this rank is at; begin_work() returns what it was at before.
  struct Activity {
    const char* what = nullptr;
    bool is_long = false;
  };
  Activity begin_work(Activity activity);
  void end_work(Activity before);
  // Ends the job when this reports a failure; null: no longer.
  void watch(const DeviceTransport* device);
  CommunicationTime time() const;
  // Of the ranks, for messages.
  void set_names(std::vector<std::string> names);
  std::string name_of(int r) const;
  [[noreturn]] void abort(int exit_code);

  int rank = 0, size = 1, local_rank = 0, local_size = 1;

 private:
  using Clock = std::chrono::steady_clock;

  void run(const MakeTransport& make);
  // Until `done`, which the thread brings about. Ends the job when the thread has not come back
  // from the transport for `patience` seconds: it is the thread that finds what is wrong with
  // others, so nobody but its caller can see that it is stuck itself.
  template <class Done>
  void await(std::unique_lock<std::mutex>& lock, double patience, const char* where, Done done);
  void serve();
  // One round over what is under way; false when nothing moved.
  bool advance();
  void tell_and_judge();
  void forgive(double gap);
  void end_job(const std::string& why);
  RankNote note() const;
  double now() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

  const double timeout_, meeting_seconds_;
  const Clock::time_point start_ = Clock::now();
  std::unique_ptr<Transport> transport_;            // of the thread
  std::unique_ptr<RankWatch> watch_;                // of the thread
  double last_note_ = 0;                            // of the thread
  std::deque<std::unique_ptr<Operation>> running_;  // of the thread

  mutable std::mutex mutex_;
  std::condition_variable wake_, done_;
  std::deque<std::unique_ptr<Operation>> submitted_;
  std::size_t unfinished_ = 0;
  bool ready_ = false, stopping_ = false, ended_ = false;
  double served_at_ = 0;  // when the thread was last seen outside the transport
  int aborting_ = -1;
  std::exception_ptr error_;
  // What the notes say; guarded by the mutex.
  std::uint64_t entered_ = 0, finished_ = 0;
  double waiting_since_ = -1;  // -1: it computes
  double computing_since_ = 0, longest_computing_ = 0;
  Activity activity_;
  double long_since_ = 0, long_seconds_ = 0;  // of long work since the last wait
  const DeviceTransport* device_ = nullptr;
  std::vector<std::string> names_;
  CommunicationTime time_;

  std::thread thread_;  // last: it uses all of the above
};

}  // namespace dtn
