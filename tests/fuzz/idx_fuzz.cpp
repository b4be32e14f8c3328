// IDX files, plain and gzipped: any result other than an array or a DataError is a bug.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "dtn/core/check.h"
#include "dtn/data/datasets.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    dtn::IdxArray array = dtn::parse_idx(std::as_bytes(std::span(data, size)), "fuzz");
    std::uint64_t product = 1;
    for (std::int64_t d : array.dims) product *= static_cast<std::uint64_t>(d);
    if (product != array.values.size()) std::abort();
  } catch (const dtn::DataError&) {
  }
  return 0;
}
