// The meta device: tensors have shapes but no values, and kernels compute nothing. It counts the
// multiply-adds of the kernels and the memory of the tensors, so a run of a model there gives the
// model's cost. Each thread counts separately.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace dtn {

// Multiply-adds of the counted kernels.
struct KernelWork {
  double multiply_adds = 0;        // as executed
  double paper_multiply_adds = 0;  // as papers count them, including those that a fast kernel skips
};

class MetaQueue {
 public:
  // Counts a kernel whose arguments have multiply_adds(). The papers' count is the same, unless the
  // arguments also have paper_multiply_adds(). All other kernels count as free: they do the few
  // operations per element of norms, activations and the softmax.
  template <class Arguments>
  void count(const Arguments& arguments) {
    if constexpr (requires { arguments.multiply_adds(); }) {
      work_.multiply_adds += arguments.multiply_adds();
      if constexpr (requires { arguments.paper_multiply_adds(); }) {
        work_.paper_multiply_adds += arguments.paper_multiply_adds();
      } else {
        work_.paper_multiply_adds += arguments.multiply_adds();
      }
    }
  }
  // Returns the counts since the last call, and resets them.
  KernelWork take_work() { return std::exchange(work_, {}); }

 private:
  KernelWork work_;
};

// Queue of the calling thread.
MetaQueue& meta_queue();

// A stand-in for `bytes` bytes of memory. No address in it may be read or written.
std::shared_ptr<std::byte> allocate_meta(std::size_t bytes);
// Bytes of the live tensors that this thread has made on the meta device.
std::int64_t meta_bytes_in_use();

}  // namespace dtn
