
#include "core/format.h"
#include "dtn/core/check.h"
#include "sweep/sweep_report.h"

namespace dtn {
namespace {

// In single quotes gnuplot takes everything as it is, but for the quote itself.
std::string quoted(const std::string& text) {
  std::string out = "'";
  for (char c : text) out += c == '\'' ? std::string("''") : std::string(1, c);
  return out + "'";
}

}  // namespace

std::string curves_data(const SweepReport& report) {
  std::string out = "# epoch, mean, least and largest over the runs, number of runs\n";
  for (const VariantResult& r : report.results) {
    if (r.runs.empty()) continue;
    std::map<double, std::vector<double>> at;  // by epoch
    for (const RunResult& run : r.runs) {
      for (const CurvePoint& e : run.curve) at[e.epoch].push_back(e.metric);
    }
    out += cat("\n\n# ", report.sweep.variants[r.variant].name, "\n");
    for (const auto& [epoch, values] : at) {
      const Statistics s = *statistics_of(values);
      out += format("%.10g %.10g %.10g %.10g %zu\n", epoch, s.mean, s.min, s.max, s.n);
    }
  }
  return out;
}

std::string curves_script(const SweepReport& report) {
  const SweepConfig& sweep = report.sweep;
  std::string out =
      cat("# Draws curves.png from curves.dat: gnuplot curves.gp\n"
          "if (!exists('png')) png = 'curves.png'\n"
          "if (strstrt(GPVAL_TERMINALS, 'pngcairo')) {\n"
          "  set terminal pngcairo noenhanced size 1200,800 font ',13'\n"
          "} else {\n"
          "  set terminal png noenhanced size 1200,800\n"
          "}\n"
          "set output png\n"
          "set title ",
          quoted(sweep.title), "\nset xlabel 'epoch'\nset ylabel ",
          quoted(figure_title(sweep.metric.figure)), "\nset grid\nset key ",
          sweep.metric.figure.higher_is_better ? "bottom right" : "top right",
          "\nset style fill transparent solid 0.15 noborder\nplot");
  std::size_t block = 0;
  for (const VariantResult& r : report.results) {
    if (r.runs.empty()) continue;
    constexpr std::size_t kColours = 8;  // that gnuplot has before it repeats them
    const std::string line = cat("linetype ", block % kColours + 1);
    const std::string comma = block ? ", \\\n " : " ";
    out += comma;
    if (r.runs.size() > 1) {
      out += cat("'curves.dat' index ", block, " using 1:3:4 with filledcurves ", line,
                 " notitle, \\\n  ");
    }
    out += cat("'curves.dat' index ", block, " using 1:2 with linespoints ", line,
               " linewidth 2 dashtype ", block / kColours + 1, " pointtype 7 pointsize 0.5 title ",
               quoted(sweep.variants[r.variant].label));
    ++block;
  }
  return out + "\n";
}

}  // namespace dtn
