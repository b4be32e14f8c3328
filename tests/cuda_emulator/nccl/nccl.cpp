// NCCL for the emulator, a library with the name of the real one. Ranks are processes of one
// machine, each with an emulated device; they meet in shared memory. Sums are computed in the order
// of the ranks and rounded to their type after each addition.
//
// The library detects mistakes that give a wrong sum or a hanging job with NCCL. These are ranks
// with different requests, memory that is not on the device, a communicator that ends before a
// graph that uses it, and anything that takes longer than two minutes. They end the program.
#include <nccl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>

#include "cuda_emulator/nccl/meeting.h"
#include "dtn/core/dtype.h"

namespace {

using emu::Collective;
using emu::Meeting;

thread_local std::string last_error;

ncclResult_t refuse(ncclResult_t result, const std::string& why) {
  last_error = why;
  return result;
}

[[noreturn]] void give_up(const std::string& why) {
  std::fprintf(stderr, "emulated NCCL: %s\n", why.c_str());
  std::abort();
}

std::size_t size_of(ncclDataType_t type) {
  switch (type) {
    case ncclUint8: return 1;
    case ncclBfloat16: return 2;
    case ncclFloat32: return 4;
    case ncclInt64:
    case ncclFloat64: return 8;
  }
  return 0;
}

template <class T>
void add(std::byte* sum, const std::byte* x, std::size_t bytes) {
  T* a = reinterpret_cast<T*>(sum);
  const T* b = reinterpret_cast<const T*>(x);
  for (std::size_t i = 0; i < bytes / sizeof(T); ++i) a[i] = static_cast<T>(a[i] + b[i]);
}
template <>
void add<dtn::bfloat16>(std::byte* sum, const std::byte* x, std::size_t bytes) {
  auto* a = reinterpret_cast<dtn::bfloat16*>(sum);
  const auto* b = reinterpret_cast<const dtn::bfloat16*>(x);
  for (std::size_t i = 0; i < bytes / sizeof *a; ++i) {
    a[i] = dtn::bfloat16(static_cast<float>(a[i]) + static_cast<float>(b[i]));
  }
}

void add(ncclDataType_t type, std::byte* sum, const std::byte* x, std::size_t bytes) {
  switch (type) {
    case ncclFloat32: return add<float>(sum, x, bytes);
    case ncclFloat64: return add<double>(sum, x, bytes);
    case ncclInt64: return add<std::int64_t>(sum, x, bytes);
    case ncclBfloat16: return add<dtn::bfloat16>(sum, x, bytes);
    case ncclUint8: return add<unsigned char>(sum, x, bytes);
  }
}

}  // namespace

// One rank's side of a meeting.
struct ncclComm {
  ncclComm(const std::string& name, int size, int rank)
      : meeting(name, size, rank), helper([this] { help_others(); }) {}
  ~ncclComm() {
    ending = true;
    helper.join();
  }

  // A device continues to work through its streams when nothing waits for them, and other ranks
  // rely on that.
  void help_others() {
    while (!ending) {
      if (meeting.is_awaited()) emu::progress();
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }

  Meeting meeting;
  std::atomic<ncclResult_t> state{ncclSuccess};
  // One more owner for each collective that is in a stream or a graph.
  std::shared_ptr<int> uses = std::make_shared<int>(0);
  std::atomic<bool> ending{false};
  std::thread helper;
};

namespace {

// Runs a whole collective: parts of the memory pass through the slots of the ranks.
void run(ncclComm& comm, const Collective& call, const std::byte* from, std::byte* to) {
  Meeting& m = comm.meeting;
  if (comm.state != ncclSuccess) return;  // the real NCCL would hang
  bool all_here = m.begin(call);
  for (std::size_t at = 0; all_here && at < call.bytes; at += Meeting::kSlotBytes) {
    const std::size_t bytes = std::min(Meeting::kSlotBytes, call.bytes - at);
    std::memcpy(m.slot(m.rank()), from + at, bytes);
    all_here = m.wait();
    if (!all_here) break;
    if (call.kind == Collective::kBroadcast) {
      std::memcpy(to + at, m.slot(call.root), bytes);
    } else if (call.kind == Collective::kAllGather) {
      for (int r = 0; r < m.size(); ++r) {
        std::memcpy(to + static_cast<std::size_t>(r) * call.bytes + at, m.slot(r), bytes);
      }
    } else {
      std::memcpy(to + at, m.slot(0), bytes);
      for (int r = 1; r < m.size(); ++r) {
        add(static_cast<ncclDataType_t>(call.type), to + at, m.slot(r), bytes);
      }
    }
    all_here = m.wait();
  }
  if (!all_here) comm.state = ncclRemoteError;
}

ncclResult_t enqueue(ncclComm_t comm, Collective call, std::size_t count, ncclDataType_t type,
                     const void* from, void* to, cudaStream_t stream) {
  if (!comm) return refuse(ncclInvalidArgument, "there is no communicator");
  if (comm->state != ncclSuccess) return refuse(comm->state, "the communicator has failed");
  call.type = type;
  call.bytes = count * size_of(type);
  if (!call.bytes) return ncclSuccess;
  const bool gathers = call.kind == Collective::kAllGather;
  const std::size_t whole =
      gathers ? call.bytes * static_cast<std::size_t>(comm->meeting.size()) : call.bytes;
  if (call.root < 0 || call.root >= comm->meeting.size()) {
    return refuse(ncclInvalidArgument, "there is no such root");
  }
  if (!emu::owns_device_memory(from, call.bytes) || !emu::owns_device_memory(to, whole)) {
    give_up("memory that is not the device's, or ends too early");
  }
  const cudaError_t error = emu::enqueue(stream, [comm, call, from, to, use = comm->uses] {
    run(*comm, call, static_cast<const std::byte*>(from), static_cast<std::byte*>(to));
    return cudaSuccess;
  });
  return error == cudaSuccess ? ncclSuccess : refuse(ncclUnhandledCudaError, "a stream refused");
}

}  // namespace

ncclResult_t ncclGetVersion(int* version) {
  *version = 22809;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess: return "no error";
    case ncclRemoteError: return "remote process exited or there was a network error";
    case ncclInvalidUsage: return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    default: return "an error";
  }
}
const char* ncclGetLastError(ncclComm_t) { return last_error.c_str(); }

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static std::atomic<int> made{0};
  *id = {};
  std::snprintf(id->internal, sizeof id->internal, "/dtn_nccl_%d_%d", getpid(), made++);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  *comm = nullptr;
  if (ranks < 1 || ranks > Meeting::kMaxRanks || rank < 0 || rank >= ranks) {
    return refuse(ncclInvalidArgument, "too many ranks, or one that is not among them");
  }
  auto made = std::make_unique<ncclComm>(id.internal, ranks, rank);
  for (int r = 0; r < ranks; ++r) {
    if (r == rank || made->meeting.device_of(r) != emu::current_device()) continue;
    made->meeting.leave();
    return refuse(ncclInvalidUsage, "Duplicate GPU detected : rank " + std::to_string(rank) +
                                        " and rank " + std::to_string(r) + " both on CUDA device " +
                                        std::to_string(emu::current_device()));
  }
  *comm = made.release();
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  *error = comm->state;
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  emu::progress();
  if (comm->uses.use_count() > 1) {
    give_up("ncclCommDestroy would wait for ever for a graph that uses the communicator");
  }
  comm->meeting.leave();
  delete comm;
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t comm) { return ncclCommDestroy(comm); }

ncclResult_t ncclAllReduce(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t, ncclComm_t comm, cudaStream_t stream) {
  return enqueue(comm, {Collective::kAllReduce}, count, type, from, to, stream);
}
ncclResult_t ncclBroadcast(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  return enqueue(comm, {Collective::kBroadcast, root}, count, type, from, to, stream);
}
ncclResult_t ncclAllGather(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return enqueue(comm, {Collective::kAllGather}, count, type, from, to, stream);
}
