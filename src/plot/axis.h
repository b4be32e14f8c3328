// Axes: the range, the ticks and their labels.
#pragma once

#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace dtn::plot {

// A missing value: nothing is drawn for it.
inline constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();

// Range of values; starts empty.
struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  bool empty() const { return !(low <= high); }
  void take_in(double value);  // ignores values that are not finite or beyond 1e300
  void take_in(std::span<const double> values);
};

struct Axis {
  std::string label = {};
  Range data = {};     // values to show; an empty range becomes 0 .. 1
  bool log = false;    // logarithmic: values of 0 or less are missing
  bool round = true;   // extends the range to whole ticks; false: keeps the ends of the data
  bool whole = false;  // ticks at whole numbers only
  // Possible values, such as 0 .. 100 for percentages: no axis, band or whisker goes beyond. Empty:
  // no limit.
  Range limit = {};
  std::vector<std::string> categories = {};  // at positions 0, 1, ..., instead of ticks
};

// Limit of a share in percent.
inline constexpr Range kPercent = {0, 100};

struct Tick {
  double value;
  std::string label;  // may be empty
};

// An axis with a fixed range, which computes positions of values.
class Scale {
 public:
  // `ticks`: approximate number of ticks that fit.
  Scale(const Axis& axis, int ticks);

  double low() const { return range_.low; }
  double high() const { return range_.high; }
  bool is_log() const { return log_; }
  // Returns 0 at the low end, 1 at the high end, and less than 0 or more than 1 outside the range.
  // NaN for a value that has no position.
  double position(double value) const;
  // Returns the value, clamped to the limit of the axis.
  double limited(double value) const;
  const std::vector<Tick>& ticks() const { return ticks_; }

 private:
  void linear_ticks(const Axis& axis, int wanted);
  void log_ticks(const Axis& axis, int wanted);

  Range range_, limit_;
  bool log_ = false;
  std::vector<Tick> ticks_;
};

}  // namespace dtn::plot
