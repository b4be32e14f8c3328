#include "data/listops/tree.h"

#include <algorithm>

#include "data/sample/random.h"
#include "dtn/core/check.h"
#include "dtn/core/philox.h"

namespace dtn::listops {
namespace {

constexpr std::uint32_t kTreeStream = 0x4c4f5053;  // "LOPS"
constexpr std::int64_t kMaxLength = 1'000'000;
constexpr int kMaxDepth = 1000, kMaxArgs = 1000;
constexpr std::int64_t kMaxCountedLength = 64;
constexpr double kManyTrees = 1e18;

// The random words of one tree, in order.
class Words {
 public:
  // The number of the tree is stored in the two free parts of Philox' counter.
  Words(std::uint64_t seed, std::uint64_t number)
      : key_{seed, kTreeStream, static_cast<std::uint32_t>(number)}, group_(number >> 32 << 32) {}

  std::uint32_t next() {
    if (used_ == 4) {
      block_ = philox_group(key_, group_++);
      used_ = 0;
    }
    return block_.v[used_++];
  }

 private:
  PhiloxKey key_;
  std::uint64_t group_;
  Philox4 block_{};
  int used_ = 4;
};

// Returns the number of tokens of the longest tree, or a number of at least kMaxLength.
std::int64_t longest_tree(const TreeLimits& limits) {
  std::int64_t longest = 1;
  for (int depth = 1; depth < limits.max_depth && longest < kMaxLength; ++depth) {
    longest = 2 + limits.max_args * longest;
  }
  return longest;
}

void check_range(const char* option, std::int64_t value, std::int64_t least, std::int64_t most) {
  if (least <= value && value <= most) return;
  throw ConfigError(cat(option, " is ", value, ", but must be from ", least, " to ", most));
}

// Returns the number of trees of each length at one depth, from the numbers one level deeper.
std::vector<double> with_operators(const std::vector<double>& deeper, int max_args) {
  const std::size_t lengths = deeper.size();
  std::vector<double> trees(lengths), lists = deeper, longer(lengths);  // lists of 1 argument
  trees[1] = kDigits;
  for (int args = kMinArgs; args <= max_args; ++args) {
    std::ranges::fill(longer, 0);
    for (std::size_t a = 1; a < lengths; ++a) {
      for (std::size_t b = 1; a + b < lengths; ++b) {
        longer[a + b] = std::min(longer[a + b] + lists[a] * deeper[b], kManyTrees);
      }
    }
    lists.swap(longer);
    for (std::size_t n = 2; n < lengths; ++n) {
      trees[n] = std::min(trees[n] + kOperators * lists[n - 2], kManyTrees);
    }
  }
  return trees;
}

}  // namespace

void check_limits(const TreeLimits& limits) {
  check_range("--max-length", limits.max_length, 2, kMaxLength);
  check_range("--min-length", limits.min_length, 0, kMaxLength);
  check_range("--max-depth", limits.max_depth, 1, kMaxDepth);
  check_range("--max-args", limits.max_args, kMinArgs, kMaxArgs);
  if (limits.max_length - limits.min_length < 2) {
    throw ConfigError(cat("no length is above --min-length ", limits.min_length,
                          " and below --max-length ", limits.max_length));
  }
  const std::int64_t longest = longest_tree(limits);
  if (longest <= limits.min_length) {
    throw ConfigError(cat("trees of --max-depth ", limits.max_depth, " and --max-args ",
                          limits.max_args, " have at most ", longest, " tokens, but --min-length ",
                          limits.min_length, " needs more"));
  }
}

std::optional<std::int64_t> count_trees(const TreeLimits& limits) {
  const std::int64_t end = std::min(limits.max_length, longest_tree(limits) + 1);
  if (end > kMaxCountedLength) return {};
  // A tree of n tokens is less than n deep, and has less than n arguments.
  const int depth = std::min(limits.max_depth, static_cast<int>(end));
  const int args = std::min(limits.max_args, static_cast<int>(end));
  std::vector<double> trees(static_cast<std::size_t>(std::max<std::int64_t>(end, 2)));
  trees[1] = kDigits;
  for (int d = 1; d < depth; ++d) trees = with_operators(trees, args);
  double sum = 0;
  for (std::int64_t n = limits.min_length + 1; n < end; ++n)
    sum += trees[static_cast<std::size_t>(n)];
  return static_cast<std::int64_t>(std::min(sum, kManyTrees));
}

TreeDrawer::TreeDrawer(const TreeLimits& limits, std::uint64_t seed)
    : limits_(limits),
      seed_(seed),
      tokens_(static_cast<std::size_t>(limits.max_length)),
      left_(static_cast<std::size_t>(limits.max_depth) + 1) {
  check_limits(limits);
}

std::span<const Token> TreeDrawer::draw(std::uint64_t number) {
  constexpr std::uint32_t kOperatorBelow = 1u << 30;  // a quarter of all words
  Words words(seed_, number);
  Token* out = tokens_.data();
  std::int64_t least = 1;  // lower bound on the tokens of the tree
  int depth = 1;
  left_[1] = 1;
  while (depth > 0) {
    // One word per node: two bits tell an operator from a digit, and the next two select the
    // operator.
    const std::uint32_t word = words.next();
    if (depth < limits_.max_depth && word < kOperatorBelow) {
      const int args = kMinArgs + uniform_index(word << 4, limits_.max_args - kMinArgs + 1);
      least += args + 1;
      if (least >= limits_.max_length) return {};
      *out++ = static_cast<Token>(kMax + (word >> 28));
      left_[static_cast<std::size_t>(++depth)] = args;
      continue;
    }
    *out++ = static_cast<Token>(kDigitZero + uniform_index(word << 2, kDigits));
    while (--left_[static_cast<std::size_t>(depth)] == 0 && --depth > 0) *out++ = kClose;
  }
  const auto length = static_cast<std::size_t>(out - tokens_.data());
  if (static_cast<std::int64_t>(length) <= limits_.min_length) return {};
  return {tokens_.data(), length};
}

}  // namespace dtn::listops
