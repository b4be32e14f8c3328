#include "dtn/dist/communicator.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "core/format.h"
#include "dist/device_transport.h"
#include "dist/engine.h"

namespace dtn {
namespace {

constexpr std::size_t kMaxBytes = 256 << 20;      // in one move
constexpr std::size_t kMaxGathered = 0x7fffffff;  // from all ranks together

// Calls f for consecutive parts of x, each small enough for one move.
template <class F>
void in_parts(const Tensor& x, std::size_t most_bytes, F&& f) {
  const Tensor flat = x.reshape({-1});
  const auto step = static_cast<std::int64_t>(most_bytes / size_of(x.dtype()));
  for (std::int64_t begin = 0; begin < flat.numel(); begin += step) {
    f(flat.slice(begin, std::min(flat.numel(), begin + step)));
  }
}

// Name of this process, for messages.
std::string own_name(int rank) {
  std::array<char, 65> host{};
  (void)gethostname(host.data(), host.size() - 1);
  return cat("rank ", rank, " on ", host.data(), ", process ", getpid());
}

}  // namespace

Communicator::Communicator() = default;

Communicator::Communicator(const MakeTransport& make, const CommunicatorOptions& options)
    : engine_(std::make_unique<Engine>(make, options)) {
  rank_ = engine_->rank;
  size_ = engine_->size;
  local_rank_ = engine_->local_rank;
  local_size_ = engine_->local_size;
  constexpr std::int64_t kNameBytes = 96;
  Tensor name = Tensor::zeros({kNameBytes}, DType::kUInt8);
  std::snprintf(static_cast<char*>(name.raw()), kNameBytes, "%s", own_name(rank_).c_str());
  const Tensor all = all_gather(name);
  std::vector<std::string> names;
  for (int r = 0; r < size_; ++r) {
    names.emplace_back(static_cast<const char*>(all.slice(r, r + 1).raw()));
  }
  engine_->set_names(std::move(names));
}

Communicator::~Communicator() {
  if (!engine_) return;
  barrier();  // because nothing watches the destruction of the device transport
  engine_->watch(nullptr);
  device_.reset();
}

std::string Communicator::name_of(int rank) const {
  return engine_ ? engine_->name_of(rank) : own_name(rank);
}

void Communicator::set_device_transport(std::unique_ptr<DeviceTransport> transport) {
  if (engine_) engine_->watch(nullptr);
  device_ = std::move(transport);
  if (engine_) engine_->watch(device_.get());
}

void Communicator::start_all_reduce(Tensor x, DType wire) {
  if (is_single() || x.numel() == 0) return;
  if (x.device() == kCpu) {
    in_parts(x, kMaxBytes, [&](Tensor part) { engine_->submit(sum_operation(part, wire)); });
    return;
  }
  DTN_CHECK(device_, "this communicator has no transport for CUDA memory");
  device_->all_reduce(x, wire);
}

void Communicator::finish() {
  if (is_single()) return;
  if (device_) device_->finish();
  engine_->wait();
}

void Communicator::all_reduce(Tensor x) {
  start_all_reduce(std::move(x));
  finish();
}

void Communicator::broadcast(Tensor x, int root) {
  if (is_single()) return;
  if (x.device() == kCpu) {
    in_parts(x, kMaxBytes, [&](Tensor part) { engine_->submit(broadcast_operation(part, root)); });
  } else {
    DTN_CHECK(device_, "this communicator has no transport for CUDA memory");
    device_->broadcast(x, root);
  }
  finish();
}

Tensor Communicator::all_gather(const Tensor& x) {
  std::vector<std::int64_t> extents{size_};
  for (int d = 0; d < x.rank(); ++d) extents.push_back(x.dim(d));
  Tensor all = Tensor::empty(Shape(std::span<const std::int64_t>(extents)), x.dtype(), x.device());
  if (is_single()) {
    all.copy_from(x);
  } else if (x.device() == kCpu) {
    DTN_CHECK(all.nbytes() <= kMaxGathered, "all_gather of ",
              bytes_text(static_cast<double>(all.nbytes())), "; at most ",
              bytes_text(static_cast<double>(kMaxGathered)), " are gathered at once");
    engine_->submit(gather_operation(x, all));
    finish();
  } else {
    DTN_CHECK(device_, "this communicator has no transport for CUDA memory");
    device_->all_gather(x, all);
    finish();
  }
  return all;
}

void Communicator::barrier() { (void)sum(0); }

bool Communicator::any(bool here) { return sum(here) > 0; }

std::int64_t Communicator::sum(std::int64_t here) {
  if (is_single()) return here;
  Tensor value = Tensor::from(std::vector<std::int64_t>{here}, {1});
  engine_->submit(sum_operation(value, DType::kInt64));
  engine_->wait();
  return *value.data<std::int64_t>();
}

CommunicationTime Communicator::time() const {
  return engine_ ? engine_->time() : CommunicationTime{};
}

void Communicator::abort(int exit_code) {
  if (engine_) engine_->abort(exit_code);
  std::_Exit(exit_code);
}

Communicator::Work::Work(Communicator& ranks, const char* what, Length length) : ranks_(ranks) {
  if (!ranks.engine_) return;
  const Engine::Activity before = ranks.engine_->begin_work({what, length == kLong});
  what_before_ = before.what;
  long_before_ = before.is_long;
}
Communicator::Work::~Work() {
  if (ranks_.engine_) ranks_.engine_->end_work({what_before_, long_before_});
}

Communicator::Waiting::Waiting(Communicator& ranks) : ranks_(ranks) {
  if (ranks_.engine_) ranks_.engine_->begin_waiting();
}
Communicator::Waiting::~Waiting() {
  if (ranks_.engine_) ranks_.engine_->end_waiting();
}

}  // namespace dtn
