#ifdef DTN_HAVE_NCCL
#include "cuda/nccl_library.h"

#include <dlfcn.h>

#include <cstdlib>

#include "dtn/core/check.h"

namespace dtn::cuda {
namespace {

constexpr int kOldest = 21300;  // 2.13, the first with ncclGetLastError

// Decodes NCCL's version number (since 2.9): 10000 major + 100 minor + patch.
std::string version_text(int version) {
  return cat("version ", version / 10000, ".", version / 100 % 100, ".", version % 100);
}

template <class F>
void find(void* library, const char* name, F& function) {
  function = reinterpret_cast<F>(dlsym(library, name));
  if (!function)
    throw ConfigError(cat("the NCCL library has no function ", name, "; install a newer one"));
}

}  // namespace

NcclLibrary::NcclLibrary(const char* file) {
  void* library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    throw ConfigError(
        cat("several ranks with --device cuda need NCCL, which cannot be loaded: ", dlerror(),
            "; install libnccl2, or add its folder to LD_LIBRARY_PATH (PyTorch includes it in "
            "nvidia/nccl/lib)"));
  }
  find(library, "ncclGetVersion", GetVersion);
  int version = 0;
  if (GetVersion(&version) != ncclSuccess || version < kOldest) {
    throw ConfigError(cat("NCCL 2.13 or newer is needed; ", file, " is ", version_text(version),
                          "; install a newer libnccl2, or add the folder of one to LD_LIBRARY_PATH "
                          "(PyTorch includes it in nvidia/nccl/lib)"));
  }
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
}

std::string NcclLibrary::describe(ncclResult_t result) const {
  const char* last = GetLastError(nullptr);
  std::string text = GetErrorString(result);
  if (last && *last) text += cat(": ", last);
  return text;
}

const NcclLibrary& nccl() {
  static const NcclLibrary library = [] {
    // NVLink switches (NVLS) add in a different order each time. It is off by default so that runs
    // repeat bit by bit; the user may turn it on. Versions without NVLS ignore the variable.
    (void)setenv("NCCL_NVLS_ENABLE", "0", 0);
    return NcclLibrary("libnccl.so.2");
  }();
  return library;
}

}  // namespace dtn::cuda
#endif
