// Functions that static libstdc++ and libgcc, or our own sources, take from a newer glibc than a
// pack may need. Packed programs are linked with these definitions. x86-64 alone, as packs are.
#include <dlfcn.h>
#include <link.h>
#include <sys/random.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>

// NVIDIA's libraries shall go on using those of the system.
#define DTN_IN_PROGRAM extern "C" __attribute__((visibility("hidden")))

// glibc 2.36: std::random_device.
DTN_IN_PROGRAM std::uint32_t arc4random() noexcept {
  std::uint32_t value = 0;
  if (getrandom(&value, sizeof value, 0) != sizeof value) std::abort();  // never for so few bytes
  return value;
}

// glibc 2.35 has a new version of hypot(), which the linker takes. 64 bits of mantissa and 15 of
// exponent are enough to compute it as it is defined. GCC makes what is named hypot visible.
DTN_IN_PROGRAM double hypot_in_program(double x, double y) noexcept __asm__("hypot");
double hypot_in_program(double x, double y) noexcept {
  if (std::isinf(x) || std::isinf(y)) return HUGE_VAL;  // also beside NaN
  const long double a = x, b = y;
  return static_cast<double>(std::sqrt(a * a + b * b));
}

// glibc 2.35: when an exception is thrown, libgcc finds by it the unwind tables of the function at
// `address`. It reads dlfo_eh_frame alone, and has nothing else to fall back to.
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
