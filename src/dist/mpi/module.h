// A separate module links MPI, and a program loads it only if a launcher has started it. A run of
// one process then neither needs MPI nor pays for its start.
#pragma once

#include "dist/transport.h"

namespace dtn {

inline constexpr const char* kMpiModule = "dtn_mpi.so";
inline constexpr const char* kOpenMpiTransport = "dtn_open_mpi_transport";
// Starts MPI. The caller owns the transport; its destructor ends MPI. Throws Error.
using OpenMpiTransport = Transport*();

}  // namespace dtn
