// Asynchronous copies from global to shared memory that use no registers and run in parallel with
// the computation (cp.async, from compute capability 8.0 on).
//
//    AsyncCopies copies;                         one per thread
//    copies.copy<16>(to, from, valid); ...       start
//    copies.commit();                            close a group
//    copies.wait<1>();                           wait for all groups except the last one
//    __syncthreads();                            wait for the copies of the other threads
#pragma once

#include "kernels/cuda/launch.cuh"

#ifdef DTN_CUDA_EMULATED
#include <cstring>
#include <vector>
#endif

namespace dtn::cuda {

#ifdef DTN_CUDA_EMULATED
// Fills the target with one bits (NaN) at the start of a copy, and writes the bytes at the wait.
// Code that still reads the old values, or does not wait, then finds NaN.
class AsyncCopies {
 public:
  template <int kBytes>
  void copy(void* to, const void* from, bool valid) {
    std::memset(to, 0xff, kBytes);
    pending_.push_back({to, from, kBytes, valid, group_});
  }
  void commit() { ++group_; }
  template <int kGroups>
  void wait() {
    auto open = [&](const Copy& c) { return c.group + kGroups >= group_; };
    for (const Copy& c : pending_) {
      if (open(c)) continue;
      if (c.valid) {
        std::memcpy(c.to, c.from, static_cast<std::size_t>(c.bytes));
      } else {
        std::memset(c.to, 0, static_cast<std::size_t>(c.bytes));
      }
    }
    std::erase_if(pending_, [&](const Copy& c) { return !open(c); });
  }

 private:
  struct Copy {
    void* to;
    const void* from;
    int bytes;
    bool valid;
    int group;
  };
  std::vector<Copy> pending_;
  int group_ = 0;
};
#else
class AsyncCopies {
 public:
  // kBytes is 8 or 16, and both addresses are multiples of it. Unless `valid`, zeros are written
  // and nothing is read, so `from` may be any address.
  template <int kBytes>
  __device__ __forceinline__ void copy(void* to, const void* from, bool valid) {
    static_assert(kBytes == 8 || kBytes == 16);
    auto target = static_cast<unsigned>(__cvta_generic_to_shared(to));
    auto source = __cvta_generic_to_global(from);
    int bytes = valid ? kBytes : 0;
    if constexpr (kBytes == 16) {
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(target), "l"(source),
                   "r"(bytes)
                   : "memory");
    } else {
      asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(target), "l"(source),
                   "r"(bytes)
                   : "memory");
    }
  }
  __device__ __forceinline__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
  template <int kGroups>
  __device__ __forceinline__ void wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(kGroups) : "memory");
  }
};
#endif

}  // namespace dtn::cuda
