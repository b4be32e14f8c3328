#include "tasks/view_passes.h"

#include <vector>

#include "dtn/core/check.h"

namespace dtn {

Tensor rows_of_views(const Tensor& views) {
  DTN_CHECK(views.rank() >= 2, "a field of views has at least 2 dimensions, not ", views.rank());
  std::vector<std::int64_t> dims{views.dim(0) * views.dim(1)};
  for (int i = 2; i < views.rank(); ++i) dims.push_back(views.dim(i));
  return views.reshape(Shape(std::span<const std::int64_t>(dims)));
}

Context ViewPasses::context(const Context& ctx, std::int64_t samples, std::int64_t views,
                            std::uint32_t pass) {
  Context of_views = ctx.of_pass(pass);
  of_views.rng.first_sample *= static_cast<std::uint64_t>(views);
  if (ctx.rng.rows) of_views.rng.rows = row_indices(ctx.rng.rows, samples, views);
  of_views.ranks.samples *= views;
  return of_views;
}

const std::int64_t* ViewPasses::row_indices(const std::int64_t* samples, std::int64_t count,
                                            std::int64_t views) {
  Tensor& rows = indices_[{samples, count, views}];
  if (!rows.defined()) {
    auto* memory = reinterpret_cast<std::byte*>(const_cast<std::int64_t*>(samples));
    const std::shared_ptr<std::byte> not_owned(std::shared_ptr<std::byte>(), memory);
    const Tensor host = Tensor::wrap(not_owned, 0, {count}, DType::kInt64, device_).to(kCpu);
    std::vector<std::int64_t> indices;
    for (const std::int64_t sample : host.values<std::int64_t>()) {
      for (std::int64_t v = 0; v < views; ++v) indices.push_back(sample * views + v);
    }
    rows = Tensor::from(indices, {count * views}).to(device_);
  }
  return static_cast<const std::int64_t*>(rows.raw());
}

}  // namespace dtn
