// Marks a function for both the host and CUDA devices; nothing for a compiler without CUDA.
#pragma once

#ifdef __CUDACC__
#define DTN_HOST_DEVICE __host__ __device__
#else
#define DTN_HOST_DEVICE
#endif
