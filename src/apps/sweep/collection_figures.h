// Figures of a collection of sweeps, made by dtn-analyze from finished runs. The folder of a
// figure, <output>/figures/<name>, holds
//
//   analysis.json, report.html, figures/   as dtn-analyze writes them; illustrations: figures/ only
//
//   analyze.log                            its messages
//
//   made.json                              what it was made from, and the failure if it failed
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "apps/sweep/sweep.h"
#include "apps/sweep/sweep_plan.h"
#include "plot/page.h"

namespace dtn {

// All runs of the sweeps of a collection with their states, by name of the sweep. A run that
// another sweep trained has that sweep's folder.
using CollectionRuns = std::map<std::string, std::vector<SweepRun>>;

enum class FigureState {
  kWaiting,  // for runs, or for weights that are not in this folder
  kReady,    // not made yet, or made from other inputs
  kFailed,   // dtn-analyze failed with these inputs; the next call tries again
  kMade,
};

struct FigureStatus {
  FigureState state = FigureState::kWaiting;
  std::string text;  // for instance "waits for 2 runs of table1_models"
};

FigureStatus figure_status(const SweepFigure& figure, const SweepOptions& collection,
                           const CollectionRuns& runs);

// Makes a figure whose runs are finished. A failure is logged and kept for figure_status().
SweepStatus make_figure(const SweepFigure& figure, const SweepOptions& collection,
                        const CollectionRuns& runs);

// The pictures that a page shows of a figure.
struct FigurePictures {
  std::vector<plot::Figure> shown;
  std::vector<std::string> missing;  // wanted, but not drawn by dtn-analyze
};
// Returns the pictures of a figure that is made.
FigurePictures pictures_of(const SweepFigure& figure, const SweepOptions& collection);

// Returns "sweep/variant:seed".
std::string run_name(const SweepFigure::Run& run);

// Returns <output>/figures/<name>.
std::filesystem::path folder_of_figure(const SweepFigure& figure, const SweepOptions& collection);

}  // namespace dtn
