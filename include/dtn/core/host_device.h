// Marks a function as both a host and a CUDA device function. Empty for a compiler without CUDA.
#pragma once

#ifdef __CUDACC__
#define DTN_HOST_DEVICE __host__ __device__
#else
#define DTN_HOST_DEVICE
#endif
