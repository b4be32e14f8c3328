// The caching allocator, which CUDA graphs need: memory that a graph uses must stay allocated.
#pragma once

#include "core/cuda_device.h"

namespace dtn::test {

// Enables the caching allocator while an object of this class lives.
class Caching {
 public:
  Caching() : before_(cuda::is_caching()) { cuda::set_caching(true); }
  ~Caching() { cuda::set_caching(before_); }
  Caching(const Caching&) = delete;
  Caching& operator=(const Caching&) = delete;

 private:
  bool before_;
};

}  // namespace dtn::test
