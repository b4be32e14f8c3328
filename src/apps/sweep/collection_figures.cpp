#include "apps/sweep/collection_figures.h"

#include <algorithm>

#include "apps/common/json_files.h"
#include "apps/report/analysis/figures.h"
#include "apps/sweep/child_wait.h"
#include "config/document.h"
#include "core/exit_code.h"
#include "core/format.h"
#include "core/stop_signal.h"
#include "dtn/core/check.h"
#include "dtn/core/log.h"
#include "io/atomic_file.h"
#include "io/fingerprint.h"

namespace dtn {
namespace fs = std::filesystem;
namespace {

constexpr const char* kMadeFile = "made.json";
constexpr const char* kAnalyzeLog = "analyze.log";

const SweepRun& run_of_figure(const SweepFigure::Run& named, const CollectionRuns& runs) {
  for (const SweepRun& run : runs.at(named.sweep)) {
    if (run.id == cat(named.variant, ":", named.seed)) return run;
  }
  throw Error(cat("the plan of ", named.sweep, " lacks ", named.variant, ":", named.seed));
}

// Returns the last checkpoint, or an empty path if the folder has none: results that are kept in an
// archive have no weights.
fs::path last_checkpoint(const SweepRun& run) {
  const fs::path last = run.folder / "checkpoints" / "last";
  return fs::exists(last) ? fs::canonical(last) : fs::path();
}

// Describes the runs for which a figure waits; empty if it does not wait.
std::string waiting_text(const SweepFigure& figure, const CollectionRuns& runs) {
  std::vector<std::pair<std::string, std::size_t>> unfinished;  // by sweep
  std::vector<std::string> weightless;
  for (const SweepFigure::Run& named : figure.runs) {
    const SweepRun& run = run_of_figure(named, runs);
    if (run.state == RunState::kFinished) {
      if (last_checkpoint(run).empty()) weightless.push_back(run_name(named));
      continue;
    }
    const auto known =
        std::ranges::find(unfinished, named.sweep, [](const auto& e) { return e.first; });
    if (known == unfinished.end()) {
      unfinished.emplace_back(named.sweep, 1);
    } else {
      ++known->second;
    }
  }
  if (!unfinished.empty()) {
    return cat("waits for ", config::join(unfinished, " and ", [](const auto& e) {
                 return cat(counted(e.second, "runs"), " of ", e.first);
               }));
  }
  if (weightless.empty()) return "";
  return cat("needs the weights of ", config::join(weightless),
             ", of which only the results are there");
}

// Labels may contain commas, which separate the names of --name.
std::string names_option(const SweepFigure& figure) {
  return config::join(figure.runs, ",", [](const SweepFigure::Run& run) {
    std::string name = run.label;
    std::erase(name, ',');
    return name;
  });
}

// Returns the options of dtn-analyze that say what to show.
std::vector<std::string> figure_options(const SweepFigure& figure) {
  if (figure.runs.empty()) return {"--illustrations"};
  std::vector<std::string> words = {"--name", names_option(figure)};
  if (figure.before) words.emplace_back("--before");
  const auto add = [&](const char* option, const std::optional<std::int64_t>& value) {
    if (value) words.insert(words.end(), {option, std::to_string(*value)});
  };
  add("--images", figure.images);
  add("--seed", figure.seed);
  add("--token", figure.token);
  return words;
}

// Returns a hash of everything that a figure shows. The summary of a run is written at its end, so
// another training of the same config has another one.
std::string inputs_of(const SweepFigure& figure, const CollectionRuns& runs) {
  Fingerprint inputs;
  for (const std::string& word : figure_options(figure)) inputs.add(word);
  for (const SweepFigure::Run& named : figure.runs) {
    const SweepRun& run = run_of_figure(named, runs);
    inputs.add(run_name(named));
    inputs.add(last_checkpoint(run).filename().string());
    inputs.add(text_of_file(run.folder / "summary.json"));
  }
  return inputs.text();
}

ChildExit run_analyzer(const SweepFigure& figure, const SweepOptions& options,
                       const CollectionRuns& runs) {
  const fs::path folder = folder_of_figure(figure, options);
  std::vector<std::string> command = options.analyzer;
  for (const SweepFigure::Run& named : figure.runs) {
    command.insert(command.end(), {"--checkpoint", run_of_figure(named, runs).folder.string()});
  }
  for (const std::string& word : figure_options(figure)) command.push_back(word);
  command.insert(command.end(), {"--output", folder.string(), "--threads",
                                 std::to_string(options.threads * options.jobs)});
  ChildProcess child(command, folder / kAnalyzeLog);
  return wait_or_stop(child);
}

// Returns all pictures in the folder of a figure, with captions and numbers.
std::vector<plot::Figure> all_pictures(const SweepFigure& figure, const fs::path& folder) {
  if (figure.runs.empty()) return illustrations();
  return draw_figures(json_of_file(folder / "analysis.json"), {});
}

std::string anchor_of(const std::string& figure, const std::string& picture) {
  std::string anchor = cat(figure, "-", picture);
  std::ranges::replace_if(
      anchor, [](char c) { return c == '.' || c == '+'; }, '_');
  return anchor;
}

}  // namespace

std::string run_name(const SweepFigure::Run& run) {
  return cat(run.sweep, "/", run.variant, ":", run.seed);
}

fs::path folder_of_figure(const SweepFigure& figure, const SweepOptions& collection) {
  return collection.output / "figures" / figure.name;
}

FigureStatus figure_status(const SweepFigure& figure, const SweepOptions& collection,
                           const CollectionRuns& runs) {
  if (std::string text = waiting_text(figure, runs); !text.empty()) {
    return {FigureState::kWaiting, std::move(text)};
  }
  const fs::path folder = folder_of_figure(figure, collection);
  const auto made = json_of_file(folder / kMadeFile);
  if (!made.is_object() || made.value("inputs", "") != inputs_of(figure, runs)) {
    return {FigureState::kReady, "ready"};
  }
  if (const int code = made.value("code", 0)) {
    return {FigureState::kFailed, cat("failed (", code, "), will be retried; see figures/",
                                      figure.name, "/", kAnalyzeLog)};
  }
  if (!fs::exists(folder / "figures")) return {FigureState::kReady, "ready"};
  return {FigureState::kMade, "made"};
}

SweepStatus make_figure(const SweepFigure& figure, const SweepOptions& collection,
                        const CollectionRuns& runs) {
  const fs::path folder = folder_of_figure(figure, collection);
  fs::create_directories(folder);
  remove_stale_temporaries(folder);
  fs::remove(folder / kMadeFile);
  const std::string what = figure.runs.empty()
                               ? std::string("drawing illustrations")
                               : cat("analyzing ", counted(figure.runs.size(), "runs"));
  log_info(cat(figure.name, ": ", what, "; log in ", (folder / kAnalyzeLog).string()));
  const ChildExit exit = run_analyzer(figure, collection, runs);
  const int code = exit.signal ? 128 + exit.signal : exit.code;
  if (code != kExitDone && stop_requested()) return SweepStatus::kStopped;
  nlohmann::ordered_json made = {{"inputs", inputs_of(figure, runs)}, {"code", code}};
  write_file_atomic(folder / kMadeFile, json_text(made, 2));
  if (code == kExitDone) return SweepStatus::kFinished;
  log_warn(cat(figure.name, ": dtn-analyze failed with ",
               exit.signal ? cat("signal ", exit.signal) : cat("exit code ", exit.code), "; see ",
               (folder / kAnalyzeLog).string(), "; run the same command again to retry"));
  return SweepStatus::kFailed;
}

FigurePictures pictures_of(const SweepFigure& figure, const SweepOptions& collection) {
  const fs::path folder = folder_of_figure(figure, collection);
  std::vector<plot::Figure> all = all_pictures(figure, folder);
  FigurePictures pictures;
  std::vector<std::string> wanted = figure.pictures;
  if (wanted.empty()) {
    for (const plot::Figure& picture : all) wanted.push_back(picture.name);
  }
  for (const std::string& name : wanted) {
    const auto found = std::ranges::find(all, name, &plot::Figure::name);
    std::string svg = text_of_file(folder / "figures" / (name + ".svg"));
    if (found == all.end() || svg.empty()) {
      pictures.missing.push_back(name);
      continue;
    }
    found->svg = std::move(svg);  // with the images themselves, which analysis.json lacks
    found->name = anchor_of(figure.name, name);
    pictures.shown.push_back(std::move(*found));
  }
  return pictures;
}

}  // namespace dtn
