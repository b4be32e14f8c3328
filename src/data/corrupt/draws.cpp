#include "data/corrupt/draws.h"

#include "data/corrupt/kernels.h"
#include "io/fingerprint.h"

namespace dtn {
namespace {

constexpr std::uint32_t kCorruptStream = 0xC0440001u;

PhiloxKey corruption_key(std::uint64_t seed, std::string_view corruption, int severity,
                         std::string_view item) {
  Fingerprint print;
  print.add(static_cast<std::int64_t>(seed));
  print.add(corruption);
  print.add(item);
  return {static_cast<std::uint64_t>(print.number()), kCorruptStream,
          static_cast<std::uint32_t>(severity)};
}

}  // namespace

Draws::Draws(std::uint64_t seed, std::string_view corruption, int severity, std::string_view item)
    : key_(corruption_key(seed, corruption, severity, item)) {}

void Draws::words(std::int64_t count, std::vector<std::uint32_t>& buffer) {
  const std::int64_t blocks = (count + corrupt::kBlockWords - 1) / corrupt::kBlockWords;
  buffer.resize(static_cast<std::size_t>(blocks * corrupt::kBlockWords));
  corrupt::kernels().philox(key_, group_, blocks, buffer.data());
  group_ += static_cast<std::uint64_t>(blocks * corrupt::kBlockGroups);
}

void Draws::normals(std::int64_t count, std::vector<std::uint32_t>& buffer,
                    std::vector<float>& out) {
  words(count, buffer);
  out.resize(buffer.size());
  corrupt::kernels().normals(
      buffer.data(), static_cast<std::int64_t>(buffer.size()) / corrupt::kBlockWords, out.data());
}

}  // namespace dtn
