// Graphs need the caching allocator: what they use must stay theirs.
#pragma once

#include "core/cuda_device.h"

namespace dtn::test {

// Memory is kept while one of these lives.
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
