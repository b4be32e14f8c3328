// Denormals are the numbers next to 0 that have lost digits: below 1.2e-38 in float32, 2.2e-308 in
// float64. No result of training hangs on them, and some processors take over a hundred cycles for
// an operation that meets one, so that computing threads take them for 0.
#pragma once

#include <cstdint>

namespace dtn {

// While one lives, operations of this thread take denormals for 0 and make 0 instead of them.
// Afterwards the thread does again what it did before, which may have been the same: a program
// around the library keeps its own ways. Costs a few nanoseconds. parallel_for and every kernel do
// it for themselves; a thread of a user's own that computes much may do so too. Processors other
// than x86-64 and AArch64 go on as they are.
class FlushDenormals {
 public:
  FlushDenormals();
  ~FlushDenormals();
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

  // While one lives, this thread does as it did before the first FlushDenormals: a thread takes
  // after the one that makes it, and those of OpenMP, once made, are the user's too.
  class Lifted {
   public:
    Lifted();
    ~Lifted();
    Lifted(const Lifted&) = delete;
    Lifted& operator=(const Lifted&) = delete;

   private:
    std::uint64_t before_;
  };

 private:
  std::uint64_t before_;  // the bits of the control register that ask for it
};

}  // namespace dtn
