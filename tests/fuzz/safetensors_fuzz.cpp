// Feeds arbitrary bytes to the safetensors parser. Every loaded tensor must be readable to its last
// byte.
#include <cstdint>
#include <cstdlib>
#include <span>

#include "dtn/core/check.h"
#include "dtn/io/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    auto file = dtn::parse_safetensors(std::as_bytes(std::span(data, size)), "fuzz");
    unsigned sum = 0;
    for (const auto& [name, tensor] : file.tensors) {
      if (file.find(name) != &tensor) std::abort();
      const auto* bytes = static_cast<const std::uint8_t*>(tensor.raw());
      for (std::size_t i = 0; i < tensor.nbytes(); ++i) sum += bytes[i];
    }
    volatile unsigned keep = sum;
    (void)keep;
  } catch (const dtn::DataError&) {
  }
  return 0;
}
