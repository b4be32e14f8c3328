#include "dist/engine.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "dist/device_transport.h"
#include "dist/launch.h"
#include "dtn/core/log.h"

namespace dtn {
namespace {

using namespace std::chrono_literals;

// Pause between two rounds over the running operations while the program computes. Within one host
// a round costs time on the core that computes; between hosts it keeps the bytes moving.
constexpr auto kPauseWithinHost = 4ms, kPauseBetweenHosts = 1ms;
// While the program waits, its core is free for this thread.
constexpr auto kSpin = 100us, kShortPause = 20us;

constexpr double kSuspended = 5;  // seconds; a longer gap means that the process was suspended
constexpr auto kAbortTime = 5s;   // for MPI to end all processes
constexpr char kResume[] = "The job ends; continue from its last checkpoint with --resume auto.";
constexpr int kExitFailed = 1;

}  // namespace

Communicator::Engine::Engine(const MakeTransport& make, const CommunicatorOptions& options)
    : timeout_(options.timeout_seconds),
      meeting_seconds_(options.meeting_seconds),
      thread_([this, &make] { run(make); }) {
  std::unique_lock lock(mutex_);
  await(lock, meeting_seconds_, "connecting to the other processes",
        [&] { return ready_ || error_; });
  if (!error_) return;
  lock.unlock();
  thread_.join();
  std::rethrow_exception(error_);
}

Communicator::Engine::~Engine() {
  {
    std::unique_lock lock(mutex_);
    stopping_ = true;
    wake_.notify_one();
    await(lock, meeting_seconds_, "disconnecting from the other processes", [&] { return ended_; });
  }
  thread_.join();
}

template <class Done>
void Communicator::Engine::await(std::unique_lock<std::mutex>& lock, double patience,
                                 const char* where, Done done) {
  double looked = now();
  while (!done_.wait_for(lock, 1s, done)) {
    const double gap = now() - std::exchange(looked, now());
    if (gap > kSuspended) served_at_ += gap;  // this process was suspended
    const double silent = now() - served_at_;
    if (timeout_ <= 0 || silent <= patience) continue;
    const int this_rank = ready_ ? rank : launch().rank;
    lock.unlock();
    log_error(cat(name_of(this_rank), " has waited in MPI for ", std::lround(silent), " s, ", where,
                  ": another process or the network has failed. ", kResume));
    std::_Exit(kExitFailed);
  }
}

void Communicator::Engine::submit(std::unique_ptr<Operation> operation) {
  {
    std::lock_guard lock(mutex_);
    submitted_.push_back(std::move(operation));
    ++unfinished_;
  }
  wake_.notify_one();
}

void Communicator::Engine::wait() {
  begin_waiting();
  {
    std::unique_lock lock(mutex_);
    if (unfinished_ > 0) wake_.notify_one();
    await(lock, std::max(2 * timeout_, kSuspended + 1), "exchanging data",
          [&] { return unfinished_ == 0; });
  }
  end_waiting();
}

void Communicator::Engine::begin_waiting() {
  std::lock_guard lock(mutex_);
  ++entered_;
  waiting_since_ = now();
  if (!activity_.is_long) {
    longest_computing_ = std::max(longest_computing_, waiting_since_ - computing_since_);
  }
}

void Communicator::Engine::end_waiting() {
  std::lock_guard lock(mutex_);
  computing_since_ = now();
  time_.waiting += computing_since_ - waiting_since_;
  waiting_since_ = -1;
  long_seconds_ = 0;
}

Communicator::Engine::Activity Communicator::Engine::begin_work(Activity activity) {
  std::lock_guard lock(mutex_);
  if (activity.is_long && !activity_.is_long) long_since_ = now();
  activity.is_long |= activity_.is_long;
  return std::exchange(activity_, activity);
}

void Communicator::Engine::end_work(Activity before) {
  std::lock_guard lock(mutex_);
  if (activity_.is_long && !before.is_long) {
    long_seconds_ += now() - long_since_;
    computing_since_ = now();  // long work tells nothing about the time of a step
  }
  activity_ = before;
}

void Communicator::Engine::watch(const DeviceTransport* device) {
  std::lock_guard lock(mutex_);
  device_ = device;
}

CommunicationTime Communicator::Engine::time() const {
  std::lock_guard lock(mutex_);
  return time_;
}

void Communicator::Engine::set_names(std::vector<std::string> names) {
  std::lock_guard lock(mutex_);
  names_ = std::move(names);
  computing_since_ = now();  // excludes the start of the program
  longest_computing_ = 0;
}

std::string Communicator::Engine::name_of(int r) const {
  std::lock_guard lock(mutex_);
  return names_.empty() ? cat("rank ", r) : names_[static_cast<std::size_t>(r)];
}

void Communicator::Engine::abort(int exit_code) {
  {
    std::lock_guard lock(mutex_);
    aborting_ = exit_code;
  }
  wake_.notify_one();
  std::this_thread::sleep_for(kAbortTime);  // the transport also ends this process
  std::_Exit(exit_code);
}

void Communicator::Engine::run(const MakeTransport& make) {
  prctl(PR_SET_TIMERSLACK, 1000);  // ns, so that pauses end on time
  try {
    transport_ = make();
    rank = transport_->rank();
    size = transport_->size();
    local_rank = transport_->local_rank();
    local_size = transport_->local_size();
    watch_ = std::make_unique<RankWatch>(rank, size, timeout_, now());
    last_note_ = now();
  } catch (...) {
    std::lock_guard lock(mutex_);
    error_ = std::current_exception();
    done_.notify_all();
    return;
  }
  {
    std::lock_guard lock(mutex_);
    served_at_ = now();
    ready_ = true;
    done_.notify_all();
  }
  try {
    serve();
  } catch (const std::exception& e) {
    end_job(cat(name_of(rank), ": ", e.what()));
  }
  transport_.reset();
  std::lock_guard lock(mutex_);
  ended_ = true;
  done_.notify_all();
}

void Communicator::Engine::serve() {
  Clock::time_point moved = Clock::now();
  for (;;) {
    bool waited_for;
    {
      std::unique_lock lock(mutex_);
      served_at_ = now();
      if (running_.empty()) {
        const double until_note = last_note_ + RankWatch::kNoteSeconds - now();
        wake_.wait_for(lock, std::chrono::duration<double>(std::max(0.0, until_note)),
                       [&] { return !submitted_.empty() || stopping_ || aborting_ >= 0; });
      }
      if (aborting_ >= 0) transport_->abort(aborting_);
      if (stopping_ && running_.empty() && submitted_.empty()) return;
      while (!submitted_.empty()) {
        running_.push_back(std::move(submitted_.front()));
        submitted_.pop_front();
      }
      waited_for = waiting_since_ >= 0;
    }
    const double before = now();
    const bool any = !running_.empty(), progress = advance();
    tell_and_judge();
    if (progress) moved = Clock::now();
    if (any && !progress) {
      if (!waited_for) {
        std::unique_lock lock(mutex_);
        wake_.wait_for(lock, local_size == size ? kPauseWithinHost : kPauseBetweenHosts, [&] {
          return waiting_since_ >= 0 || aborting_ >= 0 || !submitted_.empty();
        });
      } else if (Clock::now() - moved > kSpin) {
        std::this_thread::sleep_for(kShortPause);
      }
    }
    if (any) {
      std::lock_guard lock(mutex_);
      time_.moving += now() - before;
    }
  }
}

bool Communicator::Engine::advance() {
  bool may_gather = true, progress = false;
  for (const auto& operation : running_) {
    const bool gathering = operation->gathering();
    operation->advance(*transport_, may_gather);
    may_gather = operation->gathering();
    progress |= operation->done() || gathering != operation->gathering();
  }
  const std::size_t before = running_.size();
  std::erase_if(running_, [](const auto& operation) { return operation->done(); });
  if (const std::size_t finished = before - running_.size()) {
    std::lock_guard lock(mutex_);
    unfinished_ -= finished;
    finished_ += finished;
    if (unfinished_ == 0) done_.notify_all();
  }
  return progress;
}

// Sends this rank's note, receives the notes of the others, and ends the job if a rank blocks it.
void Communicator::Engine::tell_and_judge() {
  const double gap = now() - last_note_;
  if (gap < RankWatch::kNoteSeconds) return;
  last_note_ = now();
  if (gap > kSuspended) forgive(gap);
  const RankNote local = note();
  watch_->hear(local, now());
  if (rank != 0) transport_->send(local, 0);
  for (int to = 1; rank == 0 && to < size; ++to) transport_->send(local, to);
  while (std::optional<RankNote> heard = transport_->receive()) watch_->hear(*heard, now());
  if (const auto verdict = watch_->judge(now())) {
    end_job(cat(verdict->rank ? name_of(*verdict->rank) : "all processes", " ", verdict->what));
  }
  std::string lost;
  {
    std::lock_guard lock(mutex_);
    if (device_) lost = device_->failure();
  }
  if (!lost.empty()) end_job(cat(name_of(rank), ": ", lost));
}

// Called if this thread, which wakes every second, has not run for `gap` seconds. The machine was
// suspended, for example by a scheduler, while its clock ran on. No rank is at fault for that time.
void Communicator::Engine::forgive(double gap) {
  watch_->forgive(now());
  std::lock_guard lock(mutex_);
  computing_since_ = std::min(now(), computing_since_ + gap);
  if (waiting_since_ >= 0) waiting_since_ = std::min(now(), waiting_since_ + gap);
}

void Communicator::Engine::end_job(const std::string& why) {
  log_error(cat(why, ". ", kResume));
  std::thread([] {  // in case the transport does not end this process
    std::this_thread::sleep_for(kAbortTime);
    std::_Exit(kExitFailed);
  })
      .detach();
  transport_->abort(kExitFailed);
}

// The allowance is the timeout, or kUnequal times the longest time this rank has computed between
// two waits, because ranks may have unequal speed. The time just spent on long work is added.
RankNote Communicator::Engine::note() const {
  constexpr double kUnequal = 3;
  std::lock_guard lock(mutex_);
  RankNote note;
  note.rank = rank;
  note.entered = entered_;
  note.finished = finished_;
  if (waiting_since_ >= 0) note.waited = now() - waiting_since_;
  note.allowance = std::max(timeout_, kUnequal * longest_computing_) + long_seconds_;
  if (activity_.is_long) note.allowance = std::max(note.allowance, RankWatch::kLongWorkSeconds);
  if (activity_.what) std::snprintf(note.doing, sizeof note.doing, "%s", activity_.what);
  return note;
}

}  // namespace dtn
