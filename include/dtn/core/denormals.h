// Denormals are the numbers closest to 0, which have lost precision: below 1.2e-38 in float32,
// below 2.2e-308 in float64. No training result depends on them. On some processors an operation on
// a denormal takes over a hundred cycles. Computing threads therefore treat denormals as 0.
#pragma once

#include <cstdint>

namespace dtn {

// Scope guard: while it is alive, operations of this thread read denormals as 0 and write 0 instead
// of denormals. The destructor restores the previous mode of the thread, so a program that uses the
// library keeps its own mode. Costs a few nanoseconds. parallel_for and every kernel set it
// themselves; a user's thread that computes much may set it too. No effect on processors other than
// x86-64 and AArch64.
class FlushDenormals {
 public:
  FlushDenormals();
  ~FlushDenormals();
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

  // Scope guard for code that may create threads: restores the mode from before the first
  // FlushDenormals of this thread. A new thread inherits the mode of its creator. OpenMP keeps its
  // threads, and the user's program shares them.
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
  std::uint64_t before_;  // previous flush bits of the control register
};

}  // namespace dtn
