// Shared parts of the figures of an analysis: width, heading, legend and axes.
#pragma once

#include <string>
#include <vector>

#include "apps/report/analysis_json.h"
#include "plot/page.h"
#include "plot/panel.h"

namespace dtn::drawing {

inline constexpr double kFigureWidth = 940;
inline constexpr double kFigureSide = 16;

// Height of the heading that draw_head() draws.
double head_height(const std::vector<plot::LegendEntry>& legend);
// Draws a title, a subtitle and a legend; each may be empty.
void draw_head(plot::Canvas& canvas, const std::string& title, const std::string& subtitle,
               const std::vector<plot::LegendEntry>& legend);

plot::LegendEntry legend_entry(const AnalyzedRun& run, plot::Sample sample);
std::vector<plot::LegendEntry> legend_of(const std::vector<AnalyzedRun>& runs,
                                         plot::Sample sample = plot::Sample::kLineAndMarker);

// Axis of layers, counted from 1. With the residual stream's input it starts at 0.
plot::Axis layer_axis(std::size_t depth, bool from_zero = false);
// Draws dotted lines where the grid of a multi-stage model changes.
void mark_stages(plot::Canvas& canvas, const plot::Panel& panel, const AnalyzedRun& run);

// Assembles a figure. Screen readers read `description` instead of the picture.
plot::Figure make_figure(const std::string& name, const std::string& title,
                         const std::string& caption, const std::string& description,
                         const plot::Canvas& canvas, plot::Table table);

// Returns the range of each run's values, for descriptions: "LN 0.4 to 2.5, DTN 0.4 to 2".
std::string spans_text(const std::vector<AnalyzedRun>& runs,
                       const std::vector<plot::Range>& ranges);

// Title of a panel: `name`, shortened so that it fits together with `more`.
std::string panel_title(const std::string& name, const std::string& more, double width);

// Positions of layers on their axis: 1.0, 2.0, ...
std::vector<double> layer_places(std::size_t depth, double first = 1);

// Range of the values without the largest 0.5 %, so that outliers do not dominate the colours.
plot::Range most_of(std::vector<double> values, bool from_zero);

}  // namespace dtn::drawing
