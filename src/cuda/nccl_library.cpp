#ifdef DTN_HAVE_NCCL
#include "cuda/nccl_library.h"

#include <dlfcn.h>

#include <cstdlib>

#include "dtn/core/check.h"

namespace dtn::cuda {
namespace {

constexpr int kOldest = 21000;  // 2.10, the first with bfloat16

template <class F>
void find(void* library, const char* name, F& function) {
  function = reinterpret_cast<F>(dlsym(library, name));
  if (!function) throw ConfigError(cat("the NCCL library lacks ", name, "; install a newer one"));
}

}  // namespace

NcclLibrary::NcclLibrary(const char* file) {
  void* library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    throw ConfigError(
        cat("several ranks with --device cuda need NCCL, which cannot be loaded: ", dlerror(),
            "; install libnccl2, or name the folder that has it in LD_LIBRARY_PATH "
            "(PyTorch brings it along, in nvidia/nccl/lib)"));
  }
  find(library, "ncclGetVersion", GetVersion);
  find(library, "ncclGetErrorString", GetErrorString);
  find(library, "ncclGetLastError", GetLastError);
  find(library, "ncclGetUniqueId", GetUniqueId);
  find(library, "ncclCommInitRank", CommInitRank);
  find(library, "ncclCommGetAsyncError", CommGetAsyncError);
  find(library, "ncclCommDestroy", CommDestroy);
  find(library, "ncclCommAbort", CommAbort);
  find(library, "ncclAllReduce", AllReduce);
  find(library, "ncclBroadcast", Broadcast);
  find(library, "ncclAllGather", AllGather);
  int version = 0;
  if (GetVersion(&version) != ncclSuccess || version < kOldest) {
    throw ConfigError(cat("NCCL 2.10 or newer is needed; ", file, " is version ", version));
  }
}

std::string NcclLibrary::describe(ncclResult_t result) const {
  const char* last = GetLastError(nullptr);
  std::string text = GetErrorString(result);
  if (last && *last) text += cat(": ", last);
  return text;
}

const NcclLibrary& nccl() {
  static const NcclLibrary library = [] {
    // Sums that NVLink switches take are in another order each time. Runs shall repeat bit by bit,
    // unless the user asks for other algorithms.
    (void)setenv("NCCL_ALGO", "^NVLS,NVLSTree", 0);
    return NcclLibrary("libnccl.so.2");
  }();
  return library;
}

}  // namespace dtn::cuda
#endif
