// Exchange of device memory between ranks by NCCL, in a separate stream. An exchange starts after
// the work enqueued in the computing stream; finish() makes the computing stream wait for it.
//
// The allocator considers only the computing stream when it reuses memory. Tensors in an exchange
// are therefore held until that stream waits for them. float32 values that travel as bfloat16 are
// converted in the computing stream, right after the kernels that write them and right before those
// that read them, while they are still in the cache. Kernels then never run in two streams at once.
#include "dist/device_transport.h"
#include "dtn/core/check.h"

#ifndef DTN_HAVE_NCCL

namespace dtn {

std::unique_ptr<DeviceTransport> open_device_transport(int, int, const ShareBytes&) {
  throw ConfigError(
      "several ranks with --device cuda need NCCL, but this program was built without it: install "
      "libnccl-dev and build it again");
}

}  // namespace dtn

#else

#include <cstring>
#include <vector>

#include "cuda/nccl_library.h"
#include "cuda/streams.h"
#include "kernels/pointwise/pointwise.h"

namespace dtn {
namespace {

using cuda::nccl;

[[noreturn]] void fail(const char* what, ncclResult_t result) {
  throw Error(cat("NCCL: ", what, ": ", nccl().describe(result)));
}

void check(const char* what, ncclResult_t result) {
  if (result != ncclSuccess) [[unlikely]]
    fail(what, result);
}

ncclDataType_t nccl_type(DType dtype) {
  switch (dtype) {
    case DType::kFloat32: return ncclFloat32;
    case DType::kFloat64: return ncclFloat64;
    case DType::kBFloat16: return ncclBfloat16;
    case DType::kInt64: return ncclInt64;
    default: break;
  }
  throw Error(cat("NCCL cannot sum ", name_of(dtype)));
}

ncclComm_t join(int rank, int size, const ShareBytes& share) {
  cuda::use_device();
  ncclUniqueId id{};
  if (rank == 0) check("ncclGetUniqueId", nccl().GetUniqueId(&id));
  share(reinterpret_cast<std::byte*>(&id), sizeof id);
  ncclComm_t comm = nullptr;
  const ncclResult_t result = nccl().CommInitRank(&comm, size, id, rank);
  const char* last = nccl().GetLastError(nullptr);
  if (result == ncclInvalidUsage && last && std::strstr(last, "Duplicate GPU")) {
    throw ConfigError(
        cat("two ranks would use the same GPU (", last,
            "), which NCCL does not support: start at most one rank per GPU on each host, and let "
            "CUDA_VISIBLE_DEVICES name all GPUs, or one for each rank"));
  }
  check("ncclCommInitRank", result);
  return comm;
}

class NcclTransport : public DeviceTransport {
 public:
  NcclTransport(int rank, int size, const ShareBytes& share) : comm_(join(rank, size, share)) {}

  // Waits for the other ranks, and for graphs that captured work of this transport.
  ~NcclTransport() override {
    try {
      finish();
    } catch (const Error&) {
      // The caller has already seen the error; here it only decides how the communicator ends.
    }
    (void)(failure().empty() ? nccl().CommDestroy(comm_) : nccl().CommAbort(comm_));
  }

  void all_reduce(Tensor x, DType wire) override {
    if (x.numel() == 0) return;
    Tensor sent = x;
    if (wire == DType::kBFloat16 && x.dtype() == DType::kFloat32) {
      sent = Tensor::empty(x.shape(), wire, x.device());
      run(cuda_queue(), Cast{x.dtype(), wire, x.numel(), x.raw(), sent.raw()});
    }
    begin();
    check("ncclAllReduce",
          nccl().AllReduce(sent.raw(), sent.raw(), static_cast<std::size_t>(sent.numel()),
                           nccl_type(sent.dtype()), ncclSum, comm_, stream_));
    under_way_.push_back({sent, x});
  }

  void broadcast(Tensor x, int root) override {
    if (x.numel() == 0) return;
    begin();
    check("ncclBroadcast",
          nccl().Broadcast(x.raw(), x.raw(), x.nbytes(), ncclUint8, root, comm_, stream_));
    under_way_.push_back({x, x});
  }

  void all_gather(const Tensor& x, Tensor all) override {
    if (x.numel() == 0) return;
    begin();
    check("ncclAllGather",
          nccl().AllGather(x.raw(), all.raw(), x.nbytes(), ncclUint8, comm_, stream_));
    under_way_.push_back({x, x});
    under_way_.push_back({all, all});
  }

  void finish() override {
    if (under_way_.empty()) return;
    done_.wait(cuda::compute_stream(), stream_);
    for (const UnderWay& u : under_way_) {
      if (u.sent.dtype() == u.x.dtype()) continue;
      Tensor x = u.x;
      run(cuda_queue(), Cast{u.sent.dtype(), x.dtype(), x.numel(), u.sent.raw(), x.raw()});
    }
    under_way_.clear();
    if (const std::string why = failure(); !why.empty()) throw Error(why);
  }

  std::string failure() const override {
    ncclResult_t state = ncclSuccess;
    const ncclResult_t asked = nccl().CommGetAsyncError(comm_, &state);
    if (asked != ncclSuccess) state = asked;
    if (state == ncclSuccess || state == ncclInProgress) return "";
    return cat("NCCL: the devices of the ranks have lost their connection: ",
               nccl().describe(state));
  }

 private:
  struct UnderWay {
    Tensor sent, x;  // x is the same tensor as `sent`, or its target in another type
  };

  // Call it after all memory has been allocated, so that it also waits for the memory's last users.
  void begin() { computed_.wait(stream_, cuda::compute_stream()); }

  cuda::StreamOrder computed_, done_;
  cudaStream_t stream_ = cuda::communication_stream();
  ncclComm_t comm_;
  std::vector<UnderWay> under_way_;
};

}  // namespace

std::unique_ptr<DeviceTransport> open_device_transport(int rank, int size,
                                                       const ShareBytes& share) {
  return std::make_unique<NcclTransport>(rank, size, share);
}

}  // namespace dtn

#endif
