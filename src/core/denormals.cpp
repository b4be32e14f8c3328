// These functions are compiled here, for the baseline processor, and not in the header: code in the
// header is also compiled for instruction sets that the machine may lack.
#include "dtn/core/denormals.h"

namespace dtn {
namespace {

#if defined(__x86_64__)
constexpr std::uint64_t kFlush = 0x8040;  // MXCSR: flush to zero, and denormals are zero
std::uint64_t read_control() { return __builtin_ia32_stmxcsr(); }
void write_control(std::uint64_t value) {
  __builtin_ia32_ldmxcsr(static_cast<std::uint32_t>(value));
}
#elif defined(__aarch64__)
constexpr std::uint64_t kFlush = std::uint64_t{1} << 24;  // FPCR.FZ, operands and results
std::uint64_t read_control() {
  std::uint64_t value;
  asm volatile("mrs %0, fpcr" : "=r"(value));
  return value;
}
void write_control(std::uint64_t value) { asm volatile("msr fpcr, %0" : : "r"(value)); }
#else
constexpr std::uint64_t kFlush = 0;
std::uint64_t read_control() { return 0; }
void write_control(std::uint64_t) {}
#endif

// State of this thread: the number of live FlushDenormals, and the bits before the first of them.
struct Nesting {
  int depth = 0;
  std::uint64_t outside = 0;
};
thread_local Nesting nesting;

// Sets the bits and returns the previous ones. Leaves all other bits of the register unchanged:
// they also collect floating-point exceptions.
std::uint64_t exchange_bits(std::uint64_t bits) {
  const std::uint64_t now = read_control(), before = now & kFlush;
  if (before != bits) write_control((now & ~kFlush) | bits);
  return before;
}

}  // namespace

FlushDenormals::FlushDenormals() : before_(exchange_bits(kFlush)) {
  if (nesting.depth++ == 0) nesting.outside = before_;
}
FlushDenormals::~FlushDenormals() {
  --nesting.depth;
  exchange_bits(before_);
}

FlushDenormals::Lifted::Lifted()
    : before_(nesting.depth > 0 ? exchange_bits(nesting.outside) : read_control() & kFlush) {}
FlushDenormals::Lifted::~Lifted() { exchange_bits(before_); }

}  // namespace dtn
