// Functions that static libstdc++, libgcc or our own sources use, but that need a newer glibc than
// a pack may require. Packed programs are linked with these definitions. x86-64 only, like packs.
#include <dlfcn.h>
#include <link.h>
#include <sys/random.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>

// Hidden, so that NVIDIA's libraries still use the functions of the system.
#define DTN_IN_PROGRAM extern "C" __attribute__((visibility("hidden")))

// glibc 2.36: std::random_device.
DTN_IN_PROGRAM std::uint32_t arc4random() noexcept {
  std::uint32_t value = 0;
  // Never fails for so few bytes.
  if (getrandom(&value, sizeof value, 0) != sizeof value) std::abort();
  return value;
}

// glibc 2.35 has a new version of hypot(), which the linker would choose. A long double has 64 bits
// of mantissa and 15 of exponent, enough to compute the definition directly. The function has
// another name in C++, because GCC would make a function named hypot visible.
DTN_IN_PROGRAM double hypot_in_program(double x, double y) noexcept __asm__("hypot");
double hypot_in_program(double x, double y) noexcept {
  if (std::isinf(x) || std::isinf(y)) return HUGE_VAL;  // also beside NaN
  const long double a = x, b = y;
  return static_cast<double>(std::sqrt(a * a + b * b));
}

// glibc 2.35: when an exception is thrown, libgcc calls this function to find the unwind tables of
// the function at `address`. libgcc reads only dlfo_eh_frame, and has no fallback.
DTN_IN_PROGRAM int _dl_find_object(void* address, dl_find_object* result) noexcept {
  struct Search {
    std::uintptr_t address;
    dl_find_object* result;
  } search{reinterpret_cast<std::uintptr_t>(address), result};
  const auto visit = [](dl_phdr_info* object, std::size_t, void* data) {
    const Search& wanted = *static_cast<Search*>(data);
    dl_find_object found{};
    bool contains = false;
    for (int i = 0; i < object->dlpi_phnum; ++i) {
      const ElfW(Phdr)& header = object->dlpi_phdr[i];
      const std::uintptr_t start = object->dlpi_addr + header.p_vaddr;
      if (header.p_type == PT_LOAD && wanted.address - start < header.p_memsz) contains = true;
      if (header.p_type == PT_GNU_EH_FRAME) found.dlfo_eh_frame = std::bit_cast<void*>(start);
    }
    if (!contains || found.dlfo_eh_frame == nullptr) return 0;
    *wanted.result = found;
    return 1;
  };
  return dl_iterate_phdr(visit, &search) == 1 ? 0 : -1;
}
