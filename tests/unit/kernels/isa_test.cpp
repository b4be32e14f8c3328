#include "kernels/cpu/isa.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace dtn {
namespace {

TEST(Isa, NamesMatchEnvironmentVariable) {
  EXPECT_STREQ(name_of(Isa::kGeneric), "generic");
  EXPECT_STREQ(name_of(Isa::kAvx2), "avx2");
  EXPECT_STREQ(name_of(Isa::kAvx512), "avx512");
}

TEST(Isa, IsConstant) {
  Isa first = current_isa();
  setenv("DTN_ISA", first == Isa::kGeneric ? "avx2" : "generic", 1);
  EXPECT_EQ(current_isa(), first);
  unsetenv("DTN_ISA");
}

// The choice is made once per process, so each value of DTN_ISA needs a separate process.
int isa_with(const char* wish) {
  setenv("DTN_ISA", wish, 1);
  return static_cast<int>(current_isa());
}

// Asks the processor, because current_isa() would make the choice before its test.
bool machine_has(Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::kAvx512) return __builtin_cpu_supports("avx512bf16");
  if (isa == Isa::kAvx2) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#endif
  return isa == Isa::kGeneric;
}

TEST(IsaDeathTest, EnvironmentSelectsIsa) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (Isa isa : {Isa::kGeneric, Isa::kAvx2, Isa::kAvx512}) {
    if (!is_built(isa) || !machine_has(isa)) continue;
    EXPECT_EXIT(std::exit(10 + isa_with(name_of(isa))),
                ::testing::ExitedWithCode(10 + static_cast<int>(isa)), "");
  }
  // An unsupported or unknown instruction set leaves the best available.
  EXPECT_EXIT(std::exit(isa_with("nonsense") == isa_with("avx512") ? 20 : 21),
              ::testing::ExitedWithCode(20), "");
}

}  // namespace
}  // namespace dtn
