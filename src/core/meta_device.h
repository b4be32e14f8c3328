// The meta device: tensors have shapes and no values there, and a kernel computes nothing. What it
// would have multiplied is counted, and the memory that tensors would take, so a model tells what it
// costs by running. Each thread counts for itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace dtn {

// Multiply-adds of the kernels that were run.
struct KernelWork {
  double multiply_adds = 0;        // as they are carried out
  double paper_multiply_adds = 0;  // as papers count them, with what a fast kernel leaves out
};

class MetaQueue {
 public:
  // A kernel whose arguments say what it multiplies, multiply_adds(), is counted, and is counted
  // otherwise in papers where it says paper_multiply_adds(). All others are taken for free: the few
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
  // What was counted since it was asked last.
  KernelWork take_work() { return std::exchange(work_, {}); }

 private:
  KernelWork work_;
};

// The calling thread's.
MetaQueue& meta_queue();

// Stands for so much memory. No address of it may be read or written.
std::shared_ptr<std::byte> allocate_meta(std::size_t bytes);
// What the tensors take that this thread has made on the meta device and that are still alive.
std::int64_t meta_bytes_in_use();

}  // namespace dtn
