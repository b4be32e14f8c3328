// The page of a collection of sweeps: every table of a paper beside our results, and the figures.
#pragma once

#include <string>

#include "apps/sweep/collection_figures.h"
#include "apps/sweep/sweep_report.h"
#include "plot/page.h"

namespace dtn {

// Collects the entries in the order of the page.
class CollectionPage {
 public:
  explicit CollectionPage(const std::string& title);

  void add_table(const SweepReport& report);
  // Shows `pictures` if the figure is made, or else what it waits for.
  void add_figure(const CollectedSweep& entry, const FigureStatus& status,
                  const FigurePictures& pictures);
  void add_costs(const std::string& title, const NormCosts& costs, const Registries& registries);
  // Adds a table without a sweep, with the reason.
  void add_absent(const CollectedSweep& entry);

  // Returns the page as one self-contained HTML file.
  std::string html() const;

 private:
  plot::Page page_;
  std::size_t tables_ = 0, sweeps_ = 0, figures_ = 0, made_ = 0;
};

}  // namespace dtn
