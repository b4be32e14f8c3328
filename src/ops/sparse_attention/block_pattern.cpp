// BigBird's pattern of blocks, equal to that of the released code in every number.
#include <algorithm>
#include <random>
#include <vector>

#include "dtn/core/check.h"
#include "dtn/ops/sparse_attention.h"

namespace dtn::ops {
namespace {

using Blocks = std::vector<std::int64_t>;

void append(Blocks& to, std::int64_t first, std::int64_t last) {
  for (std::int64_t b = first; b <= last; ++b) to.push_back(b);
}

// Returns the blocks that row i always sees.
Blocks fixed_blocks(std::int64_t i, std::int64_t n) {
  Blocks blocks = {0, i - 1, i, i + 1, n - 1};
  std::sort(blocks.begin(), blocks.end());
  blocks.erase(std::unique(blocks.begin(), blocks.end()), blocks.end());
  return blocks;
}

// Returns the candidates for the random blocks of row i: blocks up to `last`, without n - 1.
Blocks candidates(std::int64_t i, std::int64_t n, std::int64_t last) {
  const std::int64_t most = std::min(last, n - 2);
  Blocks blocks;
  if (i == 1) {
    append(blocks, 3, most);
  } else if (i == 2) {
    append(blocks, 4, most);
  } else if (i == n - 3) {
    append(blocks, 1, last - 4);
  } else if (i == n - 2) {
    append(blocks, 1, last - 3);
  } else if (i - 2 > last) {
    append(blocks, 1, last);
  } else {
    append(blocks, 1, i - 2);
    append(blocks, i + 2, most);
  }
  return blocks;
}

// numpy's legacy shuffle.
void shuffle(Blocks& blocks, std::mt19937& generator) {
  for (std::size_t i = blocks.size(); i-- > 1;) {
    std::uint32_t mask = 1;
    while (mask < i) mask = 2 * mask + 1;
    std::size_t j = 0;
    do {
      j = generator() & mask;
    } while (j > i);
    std::swap(blocks[i], blocks[j]);
  }
}

}  // namespace

std::int64_t BlockPattern::positions(const Options& o) {
  const std::int64_t more = o.variant == SparseVariant::kLra ? o.block : o.block - 1;
  return (o.tokens + more) / o.block * o.block;
}

bool BlockPattern::is_dense(const Options& o) { return positions(o) / o.block < o.random + 5; }

const Tensor& BlockPattern::seen_on(Device device) const {
  if (device.type != DeviceType::kCuda) return seen;
  if (!device_copy.defined() || device_copy.device() != device) device_copy = seen.to(device);
  return device_copy;
}

std::shared_ptr<const BlockPattern> BlockPattern::make(const Options& o) {
  DTN_CHECK(o.tokens > 0 && o.heads > 0 && o.block > 0 && o.random >= 0 && o.layer >= 0,
            "cannot make a block pattern of ", o.heads, " heads and blocks of ", o.block, " for ",
            o.tokens, " tokens");
  const std::int64_t all = positions(o), n = all / o.block, width = o.random + 5;
  auto pattern = std::make_shared<BlockPattern>(BlockPattern{o, n, {}, {}});
  if (is_dense(o)) return pattern;
  // For sequences longer than 1024, the released code draws as for 1024.
  const std::int64_t last = all > 1024 ? 1024 / o.block - 1 : n - 1;
  Blocks seen(static_cast<std::size_t>(o.heads * n * width), -1);
  std::mt19937 generator(static_cast<std::uint32_t>(o.layer));
  for (std::int64_t h = 0; h < o.heads; ++h) {
    for (std::int64_t i = 1; i < n - 1; ++i) {
      Blocks random = candidates(i, n, last), row = fixed_blocks(i, n);
      DTN_CHECK(static_cast<std::int64_t>(random.size()) >= o.random, "block row ", i, " of ", n,
                " has only ", random.size(), " candidates for ", o.random, " random blocks of ",
                o.block);
      shuffle(random, generator);
      row.insert(row.end(), random.begin(), random.begin() + o.random);
      std::sort(row.begin(), row.end());
      std::copy(row.begin(), row.end(), seen.begin() + (h * n + i) * width);
    }
  }
  pattern->seen = Tensor::from(seen, {o.heads, n, width});
  return pattern;
}

}  // namespace dtn::ops
