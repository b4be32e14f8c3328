// What an evaluation found.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dtn {

class Communicator;
class Fields;

// Figures by name, in the order in which they are shown and logged.
struct Metrics {
  std::vector<std::pair<std::string, double>> values;
  std::string primary;  // the one that decides which checkpoint is the best
  bool higher_is_better = true;
  std::string text{};  // the same for people: "top-1 87.83 %  loss 0.3241"

  // Throws Error that names the figures there are.
  double at(std::string_view name) const;
  double primary_value() const { return at(primary); }
  // Whether `a` is a better value of the primary figure than `b`.
  bool better(double a, double b) const { return higher_is_better ? a > b : a < b; }
};

// Gathers the figures of an evaluation batch by batch.
class Meter {
 public:
  virtual ~Meter() = default;
  // What a batch held, on the host, with "index" [n] int64, the places of its samples in the data
  // set; and what the task made of it, on the host too.
  virtual void add(const Fields& batch, const Fields& outputs) = 0;
  // Takes over what the other ranks gathered: all have the same result then, to the last digit
  // that of a single one.
  virtual void merge(Communicator& ranks) = 0;
  virtual Metrics result() const = 0;
};

}  // namespace dtn
