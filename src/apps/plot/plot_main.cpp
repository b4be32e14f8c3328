#include "dtn/app/plot_main.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "apps/common/program.h"
#include "apps/report/run_figures.h"
#include "core/format.h"
#include "dtn/core/check.h"
#include "dtn/core/log.h"
#include "io/atomic_file.h"
#include "plot/picture_files.h"

namespace dtn::app {
namespace {

namespace fs = std::filesystem;

struct PlotCommand {
  std::vector<std::string> runs, names;
  std::string title = "Comparison of runs", output = "plot";
  double width = kChartWidth;
};

// Returns distinct labels for the folders: their names, with parent folders added to equal names.
std::vector<std::string> labels_of(const std::vector<std::string>& folders) {
  std::vector<fs::path> paths;
  for (const std::string& folder : folders) {
    fs::path path = fs::absolute(folder).lexically_normal();
    paths.push_back(path.has_filename() ? path : path.parent_path());
  }
  std::vector<std::string> labels;
  for (const fs::path& path : paths) {
    std::string label = path.filename();
    for (fs::path above = path.parent_path(); above.has_filename(); above = above.parent_path()) {
      const auto same = std::ranges::count_if(paths, [&](const fs::path& other) {
        return ("/" + other.string()).ends_with("/" + label);
      });
      if (same < 2) break;
      label.insert(0, above.filename().string() + "/");
    }
    labels.push_back(label);
  }
  return labels;
}

int run_plot(const PlotCommand& options, const Registries& registries) {
  const std::vector<std::string> labels =
      options.names.empty() ? labels_of(options.runs) : options.names;
  if (labels.size() != options.runs.size()) {
    throw ConfigError(cat("--name has ", counted(labels.size(), "names"), " for ",
                          counted(options.runs.size(), "runs"),
                          "; give one name per run, separated by commas"));
  }
  std::vector<RunGroup> groups;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    RunGroup& group = groups.emplace_back(RunGroup{labels[i], {}});
    for (const fs::path& run : run_folders(options.runs[i])) {
      group.runs.push_back(read_run_record(run));
    }
  }
  const std::vector<plot::Figure> figures = curve_figures(groups, options.width);
  const fs::path output = options.output;
  plot::PictureFolder folder(output / "figures");
  for (const plot::Figure& figure : figures) folder.write(figure.name, figure.svg);
  write_file_atomic(output / "plot.html",
                    comparison_page(options.title, groups, figures, registries));
  log_info(cat("plots: ", (output / "plot.html").string()));
  return kExitDone;
}

}  // namespace

int plot_main(int argc, char** argv, const Registries& registries) {
  CLI::App app{
      "Plots several runs together: loss, accuracy, learning rate, gradient norm and speed over "
      "the epochs.",
      "dtn-plot"};
  PlotCommand options;
  app.add_option("runs", options.runs,
                 "run folders, or folders of a sweep's variants; the seeds of a variant become one "
                 "line with a band")
      ->required()
      ->type_name("RUN");
  app.add_option("--name", options.names,
                 "names of the runs, in their order (default: the names of their folders)")
      ->type_name("A,B,...")
      ->delimiter(',')
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  add_defaulted(app, "--title", options.title, "title of the page");
  add_defaulted(app, "--width", options.width,
                "width of each picture in CSS pixels; 480 suits a phone or a column of a paper")
      ->check(CLI::Range(kMinChartWidth, kMaxChartWidth))
      ->type_name("PIXELS");
  add_defaulted(app, "--output", options.output,
                "folder for plot.html and for each figure as figures/*.svg and *.png");
  return run_program(app, argc, argv, Processes::kOne,
                     [&] { return run_plot(options, registries); });
}

}  // namespace dtn::app
