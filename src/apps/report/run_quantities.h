// The quantities that runs log over the epochs, and the texts of their figures.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "apps/report/run_figures.h"
#include "plot/chart.h"

namespace dtn {

// A figure to draw: its source in the log, and its texts.
struct Quantity {
  std::string split = {}, key;  // empty split: training
  std::string name;             // name of the figure
  std::string title = {}, label;
  bool percent = false, log = false;
  bool higher_is_better = false;
  std::string caption = {};                  // how to read the figure; empty: it needs no words
  std::vector<plot::RuledValue> rules = {};  // values to compare with
};

// Returns all quantities of the runs. The most important come first.
std::vector<Quantity> quantities_of(std::span<const RunGroup> groups);

// Returns the name of top-1 in the evaluations of a task: "top-1", "k-NN top-1 of the teacher".
std::string accuracy_name(const std::string& task, const std::string& figure);

// True if evaluations of the task classify by nearest neighbours.
bool compares_neighbors(const std::string& task);

// Returns the curve of a quantity in a run; null: the run has none.
const plot::Series* curve_in(const RunRecord& run, const Quantity& quantity);

}  // namespace dtn
