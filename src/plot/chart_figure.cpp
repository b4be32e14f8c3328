#include "plot/chart_figure.h"

#include "plot/hover.h"

namespace dtn::plot {

Figure chart_figure(const std::string& name, Chart chart, const std::string& description) {
  Figure figure{.name = name,
                .title = chart.title,
                .caption = {},
                .description = description,
                .svg = draw_chart(chart, description),
                .table = {},
                .cell = chart.width <= kCellWidth};
  chart.height -= kHeightPerWidth * (chart.width - kPhoneWidth);
  chart.width = kPhoneWidth;
  figure.phone_svg = draw_chart(chart, description);
  for (Series& series : chart.series) {
    if (series.label.empty()) series.label = chart.y.label;
  }
  figure.values = hover_values(chart.x.label, chart.series);
  return figure;
}

}  // namespace dtn::plot
