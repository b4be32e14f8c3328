#include "core/meta_device.h"

#include <bit>

namespace dtn {
namespace {

// Shared with the tensors, because they may outlive the thread.
const std::shared_ptr<std::int64_t>& bytes_in_use() {
  static thread_local const auto bytes = std::make_shared<std::int64_t>(0);
  return bytes;
}

}  // namespace

MetaQueue& meta_queue() {
  static thread_local MetaQueue queue;
  return queue;
}

std::shared_ptr<std::byte> allocate_meta(std::size_t bytes) {
  // Aligned for every type, and outside every process's address space: an access by mistake ends
  // the program.
  constexpr std::uintptr_t kNowhere = std::uintptr_t{1} << 62;
  *bytes_in_use() += static_cast<std::int64_t>(bytes);
  return {std::bit_cast<std::byte*>(kNowhere), [bytes, in_use = bytes_in_use()](std::byte*) {
            *in_use -= static_cast<std::int64_t>(bytes);
          }};
}

std::int64_t meta_bytes_in_use() { return *bytes_in_use(); }

}  // namespace dtn
