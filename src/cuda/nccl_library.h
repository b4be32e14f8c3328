// NCCL, loaded at its first use, because programs also run on machines without it.
#pragma once

#include <nccl.h>

#include <string>

namespace dtn::cuda {

struct NcclLibrary {
  // Throws ConfigError if the library cannot be loaded, or is too old.
  explicit NcclLibrary(const char* file);

  decltype(&ncclGetVersion) GetVersion;
  decltype(&ncclGetErrorString) GetErrorString;
  decltype(&ncclGetLastError) GetLastError;
  decltype(&ncclGetUniqueId) GetUniqueId;
  decltype(&ncclCommInitRank) CommInitRank;
  decltype(&ncclCommGetAsyncError) CommGetAsyncError;
  decltype(&ncclCommDestroy) CommDestroy;
  decltype(&ncclCommAbort) CommAbort;
  decltype(&ncclAllReduce) AllReduce;
  decltype(&ncclBroadcast) Broadcast;
  decltype(&ncclAllGather) AllGather;

  // Returns for example "unhandled system error: <NCCL's last message>".
  std::string describe(ncclResult_t result) const;
};

// Never unloaded.
const NcclLibrary& nccl();

}  // namespace dtn::cuda
