// Random numbers of one corrupted image. Private to dtn_data.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "data/sample/random.h"
#include "dtn/core/philox.h"

namespace dtn {

// A sequence that depends only on the four arguments and is the same on any processor.
class Draws {
 public:
  Draws(std::uint64_t seed, std::string_view corruption, int severity, std::string_view item);

  std::uint32_t word() { return philox_group(key_, group_++).v[0]; }
  double uniform(double low, double high) { return dtn::uniform(word(), low, high); }

  // Fills `buffer` with at least `count` words.
  void words(std::int64_t count, std::vector<std::uint32_t>& buffer);
  // Fills `out` with at least `count` normal numbers of mean 0 and deviation 1, to float32
  // precision and up to 6.6 deviations. Overwrites `buffer`.
  void normals(std::int64_t count, std::vector<std::uint32_t>& buffer, std::vector<float>& out);

 private:
  PhiloxKey key_;
  std::uint64_t group_ = 0;  // next group of four words
};

}  // namespace dtn
