#include "plot/band.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

namespace dtn::plot {

Series mean_of(std::span<const Series> runs) {
  std::map<double, std::vector<double>> at;
  for (const Series& run : runs) {
    for (std::size_t i = 0; i < run.x.size(); ++i) {
      if (std::isfinite(run.y[i])) at[run.x[i]].push_back(run.y[i]);
    }
  }
  Series out;
  for (const auto& [x, values] : at) {
    out.x.push_back(x);
    out.y.push_back(std::accumulate(values.begin(), values.end(), 0.0) /
                    static_cast<double>(values.size()));
    if (runs.size() < 2) continue;
    const auto [least, most] = std::ranges::minmax(values);
    out.low.push_back(least);
    out.high.push_back(most);
  }
  return out;
}

Series coarser(const Series& series, std::size_t points) {
  const std::size_t n = series.x.size(), each = (n + points - 1) / points;
  if (each < 2) return series;
  Series out = series;
  out.x.clear();
  out.y.clear();
  out.low.clear();
  out.high.clear();
  for (std::size_t first = 0; first < n; first += each) {
    const std::size_t last = std::min(n, first + each);
    const auto mean = [&](const std::vector<double>& v) {
      return std::accumulate(v.begin() + static_cast<std::ptrdiff_t>(first),
                             v.begin() + static_cast<std::ptrdiff_t>(last), 0.0) /
             static_cast<double>(last - first);
    };
    out.x.push_back(mean(series.x));
    out.y.push_back(mean(series.y));
  }
  return out;
}

}  // namespace dtn::plot
