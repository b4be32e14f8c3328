#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "tasks/class_figures/class_figures.h"

namespace dtn {
namespace {

using ClassPair = std::pair<std::int64_t, std::int64_t>;
using Group = std::vector<std::int64_t>;

// Similarities of classes: the number of samples of either that are predicted as the other.
class Similarities {
 public:
  explicit Similarities(const ClassificationFigures& figures) {
    for (const Confusion& entry : figures.confusions) {
      if (entry.truth == entry.prediction) continue;
      counts_[std::minmax(entry.truth, entry.prediction)] += entry.count;
    }
  }

  double of(std::int64_t a, std::int64_t b) const {
    const auto found = counts_.find(std::minmax(a, b));
    return found == counts_.end() ? 0 : static_cast<double>(found->second);
  }

  // Mean over the pairs of a class of `a` and a class of `b`.
  double mean(const Group& a, const Group& b) const {
    double sum = 0;
    for (const std::int64_t one : a) {
      for (const std::int64_t other : b) sum += of(one, other);
    }
    return sum / static_cast<double>(a.size() * b.size());
  }

  // All pairs with a similarity, the largest first.
  std::vector<ClassPair> by_falling_count() const {
    std::vector<std::pair<std::int64_t, ClassPair>> order;
    for (const auto& [pair, count] : counts_) order.emplace_back(-count, pair);
    std::ranges::sort(order);
    std::vector<ClassPair> pairs;
    for (const auto& [count, pair] : order) pairs.push_back(pair);
    return pairs;
  }

 private:
  std::map<ClassPair, std::int64_t> counts_;
};

// Appends `next` to `group`, in the directions that put the most similar ends together.
void join(Group& group, Group next, const Similarities& similar) {
  const std::array<double, 4> ends = {
      similar.of(group.back(), next.front()), similar.of(group.back(), next.back()),
      similar.of(group.front(), next.front()), similar.of(group.front(), next.back())};
  const auto best = std::ranges::max_element(ends) - ends.begin();
  if (best >= 2) std::ranges::reverse(group);
  if (best % 2 == 1) std::ranges::reverse(next);
  group.insert(group.end(), next.begin(), next.end());
}

// Orders classes by hierarchical clustering with mean similarity.
Group clustered(const Group& classes, const Similarities& similar) {
  std::vector<Group> groups;
  for (const std::int64_t c : classes) groups.push_back({c});
  while (groups.size() > 1) {
    std::size_t a = 0, b = 1;
    double most = -1;
    for (std::size_t i = 0; i < groups.size(); ++i) {
      for (std::size_t j = i + 1; j < groups.size(); ++j) {
        const double mean = similar.mean(groups[i], groups[j]);
        if (mean > most) std::tie(most, a, b) = std::tuple(mean, i, j);
      }
    }
    join(groups[a], std::move(groups[b]), similar);
    groups.erase(groups.begin() + static_cast<std::ptrdiff_t>(b));
  }
  return groups.empty() ? Group() : groups.front();
}

}  // namespace

std::vector<std::int64_t> most_confused(const ClassificationFigures& figures, std::size_t most) {
  if (figures.classes.size() <= most) {
    Group all(figures.classes.size());
    std::iota(all.begin(), all.end(), std::int64_t{0});
    return all;
  }
  const Similarities similar(figures);
  std::set<std::int64_t> chosen;
  for (const auto& [a, b] : similar.by_falling_count()) {
    const std::size_t added = !chosen.contains(a) + !chosen.contains(b);
    if (chosen.size() + added > most) continue;
    chosen.insert({a, b});
  }
  return clustered({chosen.begin(), chosen.end()}, similar);
}

}  // namespace dtn
