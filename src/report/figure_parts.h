// What the figures of an analysis have in common: their width, their head, the look of a run.
#pragma once

#include <string>
#include <vector>

#include "plot/page.h"
#include "plot/panel.h"
#include "report/reading.h"

namespace dtn::drawing {

inline constexpr double kFigureWidth = 940;
inline constexpr double kFigureSide = 16;

// Height of what draw_head draws.
double head_height(const std::vector<plot::LegendEntry>& legend);
// Title, a line below it, and a legend; each may be empty.
void draw_head(plot::Canvas& canvas, const std::string& title, const std::string& subtitle,
               const std::vector<plot::LegendEntry>& legend);

plot::LegendEntry legend_entry(const AnalyzedRun& run, plot::Sample sample);
std::vector<plot::LegendEntry> legend_of(const std::vector<AnalyzedRun>& runs,
                                         plot::Sample sample = plot::Sample::kLineAndMarker);

// The axis of layers, counted from 1. With the residual stream's input it begins at 0.
plot::Axis layer_axis(std::size_t depth, bool from_zero = false);
// Dotted lines in a panel where the grid of a stage model changes.
void mark_stages(plot::Canvas& canvas, const plot::Panel& panel, const AnalyzedRun& run);

// The parts of a figure put together; the description is read out in place of the picture.
plot::Figure make_figure(const std::string& name, const std::string& title,
                         const std::string& caption, const std::string& description,
                         const plot::Canvas& canvas, plot::Table table);

// "LN 0.4 to 2.5, DTN 0.4 to 2": what the values of each run lie between, for descriptions.
std::string spans_text(const std::vector<AnalyzedRun>& runs,
                       const std::vector<plot::Range>& ranges);

// The title of a panel: a name cut so that it fits together with what follows it.
std::string panel_title(const std::string& name, const std::string& more, double width);

// 1.0, 2.0, ...: where layers stand on their axis.
std::vector<double> layer_places(std::size_t depth, double first = 1);

// The ends of nearly all values: the outermost 0.5 % above do not rule the colours.
plot::Range most_of(std::vector<double> values, bool from_zero);

}  // namespace dtn::drawing
