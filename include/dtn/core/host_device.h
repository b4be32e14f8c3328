// Functions for the host and for CUDA devices.
#pragma once

#ifdef __CUDACC__
#define DTN_HOST_DEVICE __host__ __device__
#else
// Marks a function as both a host and a CUDA device function. Empty for a compiler without CUDA.
#define DTN_HOST_DEVICE
#endif
