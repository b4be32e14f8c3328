#include "data/listops/draw_trees.h"

#include <limits>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "data/listops/expression.h"
#include "data/source/parallel_ordered.h"
#include "dtn/core/check.h"
#include "io/fingerprint.h"

namespace dtn::listops {
namespace {

constexpr std::int64_t kChunk = 512;  // consecutive tries of one thread

// Identifies a tree. Two of a hundred million different trees agree with a chance below 10^-20.
using TreeId = std::pair<std::int64_t, std::int64_t>;

TreeId id_of(std::span<const Token> tokens) {
  Fingerprint one, other;
  other.add(std::int64_t{1});
  for (Fingerprint* print : {&one, &other}) print->add(std::as_bytes(tokens));
  return {one.number(), other.number()};
}

struct HashOfId {
  std::size_t operator()(const TreeId& id) const { return static_cast<std::size_t>(id.first); }
};

// The trees within the limits, from a series of tries.
struct Chunk {
  struct Tree {
    std::int64_t number;
    std::size_t tokens_end, text_end;
    int value;
    TreeId id;
  };
  std::vector<Tree> trees;
  std::vector<Token> tokens;
  std::string text;
};

struct ChunkWorkspace {
  std::optional<TreeDrawer> drawer;
  Speller speller;
};

void make_chunk(std::int64_t first, ChunkWorkspace& workspace, Chunk& chunk) {
  chunk.trees.clear();
  chunk.tokens.clear();
  chunk.text.clear();
  for (std::int64_t number = first; number < first + kChunk; ++number) {
    const std::span<const Token> tokens =
        workspace.drawer->draw(static_cast<std::uint64_t>(number));
    if (tokens.empty()) continue;
    const int value = value_of(tokens);
    chunk.tokens.insert(chunk.tokens.end(), tokens.begin(), tokens.end());
    workspace.speller.append(tokens, chunk.text);
    chunk.text += '\t';
    chunk.text += static_cast<char>('0' + value);
    chunk.text += '\n';
    chunk.trees.push_back({number, chunk.tokens.size(), chunk.text.size(), value, id_of(tokens)});
  }
}

[[noreturn]] void fail_to_find(const DrawOptions& options, std::int64_t found) {
  throw ConfigError(
      cat("found only ", found, " of ", options.trees, " different trees, then none in ",
          options.most_idle_tries,
          " draws; request fewer trees, or widen --min-length, --max-length, --max-depth or "
          "--max-args"));
}

// Counts trees and passes on new ones, until there are enough.
class Collector {
 public:
  Collector(const DrawOptions& options, const std::function<void(const DrawnTree&)>& take)
      : options_(options), take_(take) {}

  const DrawReport& report() const { return report_; }
  bool is_full() const { return report_.trees >= options_.trees; }

  void add(std::int64_t first, const Chunk& chunk) {
    std::size_t tokens = 0, text = 0;
    for (const Chunk::Tree& tree : chunk.trees) {
      if (is_full()) return;
      check_idle(tree.number);
      if (seen_.insert(tree.id).second) {
        report_.tries = tree.number + 1;
        ++report_.trees;
        take_({tree.number, std::span(chunk.tokens).subspan(tokens, tree.tokens_end - tokens),
               tree.value, std::string_view(chunk.text).substr(text, tree.text_end - text)});
      } else {
        ++report_.duplicates;
      }
      tokens = tree.tokens_end;
      text = tree.text_end;
    }
    if (!is_full()) check_idle(first + kChunk);
  }
  void stop() { report_.stopped = true; }

 private:
  // Called before the try of this number.
  void check_idle(std::int64_t number) const {
    if (number - report_.tries >= options_.most_idle_tries) fail_to_find(options_, report_.trees);
  }

  const DrawOptions& options_;
  const std::function<void(const DrawnTree&)>& take_;
  std::unordered_set<TreeId, HashOfId> seen_;
  DrawReport report_;
};

}  // namespace

void check_drawing(const DrawOptions& options) {
  check_limits(options.limits);
  const std::optional<std::int64_t> there = count_trees(options.limits);
  if (!there || *there >= options.trees) return;
  throw ConfigError(cat("only ", *there, *there == 1 ? " tree has" : " different trees have",
                        " more than --min-length ", options.limits.min_length,
                        " and fewer than --max-length ", options.limits.max_length, " tokens, but ",
                        options.trees, " are requested; request fewer, or widen the limits"));
}

DrawReport draw_trees(const DrawOptions& options, const std::function<void(const DrawnTree&)>& take,
                      const std::function<bool(std::int64_t)>& keep_going) {
  check_drawing(options);
  Collector collector(options, take);
  if (collector.is_full()) return collector.report();
  for_each_in_order<ChunkWorkspace, Chunk>(
      0, std::numeric_limits<std::int64_t>::max() / kChunk, options.jobs,
      [&](std::int64_t i, ChunkWorkspace& workspace, Chunk& chunk) {
        if (!workspace.drawer) workspace.drawer.emplace(options.limits, options.seed);
        make_chunk(i * kChunk, workspace, chunk);
      },
      [&](std::int64_t i, const Chunk& chunk) {
        collector.add(i * kChunk, chunk);
        if (collector.is_full()) return false;
        if (keep_going && !keep_going(collector.report().trees)) {
          collector.stop();
          return false;
        }
        return true;
      });
  return collector.report();
}

}  // namespace dtn::listops
