// A model parameter that may differ between stages.
#pragma once

#include <initializer_list>
#include <ostream>
#include <utility>
#include <vector>

#include "dtn/core/check.h"

namespace dtn {

// One value for all stages, or a list with one value per stage. Converts to the value itself in a
// model with one stage.
template <class T>
class PerStage {
 public:
  PerStage() : PerStage(T{}) {}
  PerStage(T one) : values_{one} {}
  PerStage(std::initializer_list<T> each) : PerStage(std::vector<T>(each)) {}
  // A list with one value stays a list.
  explicit PerStage(std::vector<T> each) : values_(std::move(each)), is_list_(true) {
    DTN_CHECK(!values_.empty(), "an empty list has nothing for any stage");
  }

  bool is_list() const { return is_list_; }
  const std::vector<T>& values() const { return values_; }
  // The value of a stage, from 0. Throws Error past the end of the list.
  T at(int stage) const {
    if (!is_list_) return values_.front();
    DTN_CHECK(0 <= stage && stage < static_cast<int>(values_.size()), "a list of ", values_.size(),
              " has nothing for stage ", stage);
    return values_[static_cast<std::size_t>(stage)];
  }
  // The value in a model with one stage. Throws Error for a longer list.
  operator T() const {
    DTN_CHECK(values_.size() == 1, "a list of ", values_.size(), " values is no single one");
    return values_.front();
  }

  // 64, or 64 128 320 512
  friend std::ostream& operator<<(std::ostream& out, const PerStage& p) {
    for (std::size_t i = 0; i < p.values_.size(); ++i) out << (i ? " " : "") << p.values_[i];
    return out;
  }
  bool operator==(const PerStage&) const = default;
  friend bool operator==(const PerStage& a, T b) { return a == PerStage(b); }

 private:
  std::vector<T> values_;
  bool is_list_ = false;
};

}  // namespace dtn
