// NCCL, loaded when a program first needs it: programs run on machines that do not have it.
#pragma once

#include <nccl.h>

#include <string>

namespace dtn::cuda {

struct NcclLibrary {
  // Throws ConfigError where the library cannot be loaded, or is too old.
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

  // "unhandled system error: what NCCL says of it"
  std::string describe(ncclResult_t result) const;
};

// Never unloaded.
const NcclLibrary& nccl();

}  // namespace dtn::cuda
