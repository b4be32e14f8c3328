// Forward passes over several views of each sample.
//
// The rows of such a pass are sample-major: view v of sample i is row i V + v, so a field
// [n, V, ...] becomes [n V, ...] without a copy.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>

#include "dtn/autograd/context.h"
#include "dtn/core/tensor.h"

namespace dtn {

// views [n, V, ...] -> [n V, ...], the same memory.
Tensor rows_of_views(const Tensor& views);

class ViewPasses {
 public:
  explicit ViewPasses(Device device) : device_(device) {}

  // Returns the context of a pass over the `views` views of `samples` samples. Each view draws its
  // own random numbers. They do not depend on how the batch is split, nor on the other passes of
  // the step, which have other numbers `pass`.
  Context context(const Context& ctx, std::int64_t samples, std::int64_t views, std::uint32_t pass);

 private:
  const std::int64_t* row_indices(const std::int64_t* samples, std::int64_t count,
                                  std::int64_t views);

  Device device_;
  // [count views] int64, by (sample indices, count, views). Made once, before a step is captured.
  std::map<std::tuple<const std::int64_t*, std::int64_t, std::int64_t>, Tensor> indices_;
};

}  // namespace dtn
