// The trees that are drawn: limits, determinism, probabilities and errors.
#include "listops_trees.h"

#include <array>
#include <map>
#include <set>

#include "chi_square.h"
#include "data_fixtures.h"

namespace dtn::listops {
namespace {

using namespace dtn::test;

TEST(ListopsTrees, AreValidUniqueAndWithinLimits) {
  const TreeLimits limits{20, 300, 6, 5};
  const Trees trees = draw(drawing(500, limits));
  ASSERT_EQ(trees.tokens.size(), 500u);
  EXPECT_EQ(std::set(trees.tokens.begin(), trees.tokens.end()).size(), 500u);
  int deepest = 0;
  std::size_t most = 0, fewest = 100;
  for (std::size_t i = 0; i < 500; ++i) {
    const Tokens& tokens = trees.tokens[i];
    EXPECT_GT(tokens.size(), 20u);
    EXPECT_LT(tokens.size(), 300u);
    EXPECT_EQ(fault_of(tokens), nullptr);
    std::vector<std::size_t> arguments{0};  // of the open operators
    for (Token token : tokens) {
      if (is_operator(token)) {
        ++arguments.back();
        arguments.push_back(0);
        deepest = std::max(deepest, static_cast<int>(arguments.size()));
      } else if (token == kClose) {
        most = std::max(most, arguments.back());
        fewest = std::min(fewest, arguments.back());
        arguments.pop_back();
      } else {
        ++arguments.back();
      }
    }
    const std::string& line = trees.lines[i];
    const std::string source = line.substr(0, line.find('\t'));
    EXPECT_EQ(line, cat(source, "\t", trees.values[i], "\n"));
    EXPECT_EQ(PairReader(source).value(), trees.values[i]) << source;
    EXPECT_EQ(source, spelled(tokens));
  }
  EXPECT_EQ(deepest, 6);  // operators up to depth 5, and their arguments
  EXPECT_EQ(most, 5u);
  EXPECT_EQ(fewest, 2u);
}

TEST(ListopsTrees, DoNotDependOnThreads) {
  DrawOptions options = drawing(700, {50, 200, 10, 10}, 9);
  const Trees one = draw(options);
  for (int jobs : {2, 3, 8}) {
    options.jobs = jobs;
    const Trees many = draw(options);
    EXPECT_EQ(many.lines, one.lines) << jobs;
    EXPECT_EQ(many.report.tries, one.report.tries) << jobs;
  }
  options.seed = 10;
  EXPECT_NE(draw(options).lines, one.lines);
  // A larger request begins with the trees of a smaller one.
  options.seed = 9;
  options.trees = 100;
  EXPECT_EQ(draw(options).lines, std::vector(one.lines.begin(), one.lines.begin() + 100));
  // Other limits give the same trees, except for those that they exclude.
  options.limits.max_length = 120;
  std::vector<std::string> shorter;
  for (std::size_t i = 0; i < one.lines.size(); ++i) {
    if (one.tokens[i].size() < 120) shorter.push_back(one.lines[i]);
  }
  ASSERT_GT(shorter.size(), 100u);
  shorter.resize(100);
  EXPECT_EQ(draw(options).lines, shorter);
}

// All bits of a try's number affect its random words.
TEST(ListopsTrees, DifferForLargeIndices) {
  TreeDrawer drawer({3, 2000, 10, 10}, 5);
  std::set<Tokens> trees;
  int found = 0;
  for (const std::uint64_t base :
       {std::uint64_t{0}, std::uint64_t{1} << 32, std::uint64_t{7} << 40}) {
    for (std::uint64_t i = 0; i < 400; ++i) {
      const auto tokens = drawer.draw(base + i);
      if (tokens.size() < 30) continue;
      ++found;
      trees.emplace(tokens.begin(), tokens.end());
    }
  }
  EXPECT_GT(found, 50);
  EXPECT_EQ(static_cast<int>(trees.size()), found);
}

// The probability of every tree with at most one operator follows from the definition.
TEST(ListopsTrees, OccurWithDefinedProbability) {
  TreeDrawer drawer({0, 7, 2, 4}, 3);
  constexpr int kTries = 200'000;
  std::map<Tokens, double> counts;
  for (std::uint64_t i = 0; i < kTries; ++i) {
    const auto tokens = drawer.draw(i);
    ++counts[Tokens(tokens.begin(), tokens.end())];
  }
  EXPECT_FALSE(counts.contains({}));  // with --max-depth 2 and --max-args 4 no tree is too long
  std::vector<double> digits, lengths(7), operators(4), last_of_three(10);
  const std::vector<double> even(10, 1.0);
  for (int d = 0; d < 10; ++d) digits.push_back(counts[tokens_of(std::to_string(d))]);
  for (const auto& [tokens, count] : counts) {
    lengths[tokens.size()] += count;
    if (tokens.size() > 1) operators[static_cast<std::size_t>(tokens[0] - kMax)] += count;
    if (tokens.size() == 5) last_of_three[static_cast<std::size_t>(digit_of(tokens[3]))] += count;
  }
  const auto expect_chance = [](const std::vector<double>& found, const std::vector<double>& p) {
    const ChiSquare test = chi_square(found, p);
    EXPECT_LT(test.statistic, test.bound);
  };
  expect_chance(digits, even);
  expect_chance(lengths, {0, 0.75, 0, 0, 0.25 / 3, 0.25 / 3, 0.25 / 3});
  expect_chance(operators, {1, 1, 1, 1});
  expect_chance(last_of_three, even);
  // Pairs of arguments, for each operator.
  std::vector<double> pairs;
  for (Token op = kMax; op <= kSum; ++op) {
    for (int a = 1; a <= 10; ++a) {
      for (int b = 1; b <= 10; ++b) {
        pairs.push_back(counts[{op, static_cast<Token>(a), static_cast<Token>(b), kClose}]);
      }
    }
  }
  expect_chance(pairs, std::vector<double>(400, 1.0));
}

// All token lists of this length, up to this depth, by enumeration.
std::set<Tokens> all_trees(std::size_t length, int depth, int max_args) {
  std::set<Tokens> trees;
  if (length == 1) {
    for (int digit = 1; digit <= 10; ++digit) trees.insert({static_cast<Token>(digit)});
  }
  if (length < 4 || depth == 1) return trees;
  // Lists of arguments by number and length.
  std::vector<std::map<std::size_t, std::set<Tokens>>> lists(static_cast<std::size_t>(max_args) +
                                                             1);
  lists[0][0] = {{}};
  for (std::size_t args = 1; args < lists.size(); ++args) {
    for (const auto& [before, some] : lists[args - 1]) {
      for (std::size_t next = 1; before + next <= length - 2; ++next) {
        for (const Tokens& tree : all_trees(next, depth - 1, max_args)) {
          for (Tokens list : some) {
            list.insert(list.end(), tree.begin(), tree.end());
            lists[args][before + next].insert(list);
          }
        }
      }
    }
    if (args < 2) continue;
    for (Tokens list : lists[args][length - 2]) {
      list.push_back(kClose);
      for (Token op = kMax; op <= kSum; ++op) {
        list.insert(list.begin(), op);
        trees.insert(list);
        list.erase(list.begin());
      }
    }
  }
  return trees;
}

TEST(ListopsTrees, CountTreesWithinLimits) {
  for (const auto& [limits, lengths] :
       std::map<std::array<int, 4>, std::vector<std::size_t>>{{{0, 2, 10, 10}, {1}},
                                                              {{0, 5, 10, 10}, {1, 4}},
                                                              {{3, 6, 10, 10}, {4, 5}},
                                                              {{3, 8, 3, 2}, {4, 7}},
                                                              {{0, 8, 1, 9}, {1}},
                                                              {{5, 8, 2, 3}, {}}}) {
    const auto [min, max, depth, args] = limits;
    std::size_t wanted = 0;
    for (std::size_t length : lengths) wanted += all_trees(length, depth, args).size();
    EXPECT_EQ(count_trees({min, max, depth, args}), static_cast<std::int64_t>(wanted))
        << min << " " << max << " " << depth << " " << args;
  }
  EXPECT_EQ(count_trees({3, 6, 10, 10}), 4400);
  EXPECT_EQ(count_trees({}), std::nullopt);
  EXPECT_EQ(count_trees({0, 64, 10, 10}), std::int64_t{1'000'000'000'000'000'000});
}

TEST(ListopsTrees, FindAllTreesOfSmallSets) {
  const Trees digits = draw(drawing(10, {0, 2, 10, 10}));
  std::set<Tokens> found(digits.tokens.begin(), digits.tokens.end());
  EXPECT_EQ(found, all_trees(1, 1, 2));
  EXPECT_GT(digits.report.duplicates, 0);
  const Trees pairs = draw(drawing(400, {3, 5, 2, 2}));
  found = {pairs.tokens.begin(), pairs.tokens.end()};
  EXPECT_EQ(found, all_trees(4, 2, 2));
}

TEST(ListopsTrees, RejectImpossibleLimits) {
  const auto expect_impossible = [](const TreeLimits& limits, const std::vector<std::string>& parts,
                                    std::int64_t trees = 5) {
    expect_error<ConfigError>([&] { draw(drawing(trees, limits)); }, parts);
  };
  expect_impossible({500, 501, 10, 10}, {"--min-length 500", "--max-length 501"});
  expect_impossible({600, 500, 10, 10}, {"--min-length 600", "--max-length 500"});
  expect_impossible({-1, 500, 10, 10}, {"--min-length is -1"});
  expect_impossible({5, 1, 10, 10}, {"--max-length is 1"});
  expect_impossible({5, 2'000'000, 10, 10}, {"--max-length is 2000000", "from 2 to 1000000"});
  expect_impossible({5, 20, 0, 10}, {"--max-depth is 0"});
  expect_impossible({5, 20, 10, 1}, {"--max-args is 1"});
  expect_impossible({5, 20, 10, 1'000'000'000}, {"--max-args is 1000000000"});
  expect_impossible({500, 2000, 2, 10}, {"--max-depth 2", "--max-args 10", "12 tokens", "500"});
  expect_impossible({1, 4, 10, 10}, {"only 0 different trees"});
  expect_impossible({3, 6, 10, 10}, {"only 4400", "10000000 are requested"}, 10'000'000);
  // There are trees of 106 tokens, but each has a probability below 10^-40.
  DrawOptions options = drawing(5, {105, 107, 4, 4});
  options.most_idle_tries = 3000;
  for (int jobs : {1, 3}) {
    options.jobs = jobs;
    int chunks = 0;  // of 512 tries; the sixth reaches the limit
    expect_error<ConfigError>(
        [&] {
          draw_trees(
              options, [](const DrawnTree&) {}, [&](std::int64_t) { return ++chunks > 0; });
        },
        {"none in 3000 draws", "0 of 5"});
    EXPECT_EQ(chunks, 5);
  }
  EXPECT_EQ(draw(drawing(0)).report.tries, 0);
}

TEST(ListopsTrees, StopOnRequest) {
  int calls = 0;
  std::int64_t taken = 0;
  const DrawReport report = draw_trees(
      drawing(100'000), [&](const DrawnTree&) { ++taken; },
      [&](std::int64_t trees) {
        EXPECT_EQ(trees, taken);
        return ++calls < 3;
      });
  EXPECT_TRUE(report.stopped);
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(report.trees, taken);
  EXPECT_LT(taken, 1000);
}

}  // namespace
}  // namespace dtn::listops
