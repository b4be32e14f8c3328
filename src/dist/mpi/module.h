// MPI is linked to a module of its own, which a program loads only when a launcher has started it:
// a run of one process neither needs MPI nor pays for its start.
#pragma once

#include "dist/transport.h"

namespace dtn {

inline constexpr const char* kMpiModule = "dtn_mpi.so";
inline constexpr const char* kOpenMpiTransport = "dtn_open_mpi_transport";
// Starts MPI; the caller owns the transport, whose end ends MPI. Throws Error.
using OpenMpiTransport = Transport*();

}  // namespace dtn
