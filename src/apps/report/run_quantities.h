// The quantities that runs log over the epochs, and the texts of their figures.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "apps/report/run_figures.h"
#include "plot/chart.h"

namespace dtn {

// The split of logged training steps; evaluations have "val", "val_ema" and the like.
inline constexpr const char* kTraining = "";

// A figure to draw: its source in the log, and its texts.
struct Quantity {
  std::vector<std::string> splits;  // of its lines
  std::string key;
  std::string name;  // name of the figure
  std::string title = {}, label;
  bool percent = false, log = false;
  bool smooth = true;                        // false: a schedule, whose steps are exact
  std::string caption = {};                  // how to read the figure; empty: it needs no words
  std::vector<plot::RuledValue> rules = {};  // values to compare with
};

// Returns all quantities of the runs. The most important come first. A quantity of training and of
// evaluations is one figure; so are all splits of a single group.
std::vector<Quantity> quantities_of(std::span<const RunGroup> groups);

// Returns the name of top-1 in the evaluations of a task: "top-1", "k-NN top-1 of the teacher".
std::string accuracy_name(const std::string& task, const std::string& figure);

// True if evaluations of the task classify by nearest neighbours.
bool compares_neighbors(const std::string& task);

// Returns the name of a split in a legend: "training", "evaluation".
std::string split_name(const std::string& split);

// Returns the curve of a key in a split of a run; null: the run has none.
const plot::Series* curve_in(const RunRecord& run, const std::string& split,
                             const std::string& key);

// The curves of a key in the runs of a group, at the epochs that all of these runs have.
struct GroupCurves {
  std::vector<plot::Series> runs = {};  // of the runs that log the key; all have the same x
  bool shortened = false;               // a run has values after the last of these epochs
};
GroupCurves curves_in(const RunGroup& group, const std::string& split, const std::string& key);

}  // namespace dtn
