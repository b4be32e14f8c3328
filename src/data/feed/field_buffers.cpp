#include "data/feed/field_buffers.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "core/cuda_device.h"
#include "dtn/core/check.h"

namespace dtn {
namespace {

class PinnedCache : public std::enable_shared_from_this<PinnedCache> {
 public:
  std::shared_ptr<std::byte> take(std::size_t bytes) {
    std::shared_ptr<std::byte> block = from_bin(bytes);
    if (!block) block = cuda::allocate_pinned(bytes);
    std::byte* address = block.get();
    return {address, [cache = shared_from_this(), block = std::move(block), bytes](auto*) mutable {
              cache->give_back(bytes, std::move(block));
            }};
  }

 private:
  using Block = std::shared_ptr<std::byte>;

  Block from_bin(std::size_t bytes) {
    std::lock_guard lock(mutex_);
    std::vector<Block>& bin = bins_[bytes];
    if (bin.empty()) return nullptr;
    Block block = std::move(bin.back());
    bin.pop_back();
    return block;
  }
  void give_back(std::size_t bytes, Block block) {
    std::lock_guard lock(mutex_);
    bins_[bytes].push_back(std::move(block));
  }

  std::mutex mutex_;
  std::unordered_map<std::size_t, std::vector<Block>> bins_;
};

}  // namespace

HostMemory pinned_memory() {
  return
      [cache = std::make_shared<PinnedCache>()](std::size_t bytes) { return cache->take(bytes); };
}

std::vector<FieldSpec> with_lengths(const std::vector<FieldSpec>& fields) {
  std::vector<FieldSpec> all;
  for (const FieldSpec& field : fields) {
    all.push_back(field);
    if (!field.ragged) continue;
    DTN_CHECK(field.row.rank() > 0, "field '", field.name,
              "' is ragged, so it cannot have scalar rows");
    all.push_back({lengths_of(field.name), {}, DType::kInt64});
  }
  for (const FieldSpec& field : all) {
    const auto same = std::ranges::count(all, field.name, &FieldSpec::name);
    DTN_CHECK(!field.name.empty(), "a field has no name");
    DTN_CHECK(same == 1, "field '", field.name, "' appears ", same, " times");
  }
  return all;
}

Tensor allocate_rows(const FieldSpec& spec, std::int64_t rows, Device device) {
  return Tensor::empty(shape_of(spec, rows), spec.dtype, device);
}

Tensor allocate_rows(const FieldSpec& spec, std::int64_t rows, const HostMemory& memory) {
  if (!memory) return allocate_rows(spec, rows, kCpu);
  const Shape shape = shape_of(spec, rows);
  const auto bytes = static_cast<std::size_t>(shape.numel()) * size_of(spec.dtype);
  return Tensor::wrap(memory(bytes), 0, shape, spec.dtype);
}

void view_rows(const Fields& from, std::int64_t rows, Fields& to) {
  for (const auto& [name, tensor] : from) {
    to[name] = rows == tensor.dim(0) ? tensor : tensor.slice(0, rows);
  }
}

}  // namespace dtn
