#include "dtn/app/train_main.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "apps/common/commands.h"
#include "apps/common/program.h"
#include "apps/common/run_end.h"
#include "apps/estimate/run_size.h"
#include "apps/recipe/folder_recipe.h"
#include "apps/report/run_figures.h"
#include "config/document.h"
#include "dtn/app/eval_main.h"
#include "dtn/app/sweep_main.h"
#include "dtn/config/load.h"
#include "dtn/core/check.h"
#include "dtn/core/log.h"
#include "dtn/nn/normalizer.h"
#include "io/atomic_file.h"
#include "io/posix.h"
#include "train/trainer.h"

namespace dtn::app {
namespace {

namespace fs = std::filesystem;

struct TrainCommand {
  std::string config, output, resume;
  std::string print_config;  // empty: the option is absent
  std::string weights;       // for a folder of images
  double minutes = 30;
  std::vector<std::string> overrides;
  bool dry_run = false;
  MachineOptions machine;
};

constexpr const char* kRecipe = "recipe.yaml";

// True if images take the place of a config. A folder does not hide a config of the same name.
bool is_folder(const TrainCommand& options) {
  const std::string& given = options.config;
  if (!fs::is_directory(given)) return false;
  if (given.ends_with('/')) return true;
  const bool is_hub_model = fs::exists(fs::path(given) / "config.json");
  return !is_hub_model && std::ranges::count(shipped_configs(), given) == 0;
}

// Throws ConfigError for options that do not go together.
void check_folder_options(const TrainCommand& options) {
  if (is_folder(options)) {
    if (job()->is_single()) return;
    throw ConfigError(cat("one process chooses the config for ", options.config,
                          ": start dtn-train without mpirun or srun, with --dry-run for the config "
                          "alone; then train with --config"));
  }
  if (!options.weights.empty()) {
    throw ConfigError(
        "--weights goes with a folder of images; with a config, use --set model.init_weights=FILE");
  }
}

// Returns the run folder for `--resume DIR`: DIR itself, or two levels above a checkpoint.
fs::path run_folder_of(const fs::path& dir) {
  fs::path absolute = fs::canonical(dir);
  return fs::exists(absolute / "state.safetensors") ? absolute.parent_path().parent_path()
                                                    : absolute;
}

// Throws ConfigError if the output is a file, or a non-empty folder without --resume.
void check_run_folder(const TrainCommand& options, const fs::path& output) {
  if (fs::exists(output) && !fs::is_directory(output)) {
    throw ConfigError(cat("--output ", output.string(), ": is a file, not a folder"));
  }
  if (options.resume.empty() && fs::exists(output) && !fs::is_empty(output)) {
    throw ConfigError(cat("output folder ", output.string(),
                          " is not empty; continue the run with --resume auto, or choose another "
                          "folder with --output"));
  }
}

// Returns the config for a folder of images: that of the run, if it is resumed, or a chosen one.
// Stores the text of the latter in `recipe`.
ExperimentConfig config_for_folder(const TrainCommand& options, const fs::path& output,
                                   Device device, const Registries& registries,
                                   std::string& recipe) {
  const ConfigSchemas schemas = registries.schemas();
  const fs::path begun = output / "config.yaml";
  if (!options.resume.empty() && fs::exists(begun)) {
    log_info(cat("config: ", begun.string()));
    return load_experiment(begun, options.overrides, schemas);
  }
  const fs::path given = options.config;
  if (fs::exists(given / "config.yaml") && fs::exists(given / "checkpoints")) {
    throw ConfigError(cat(given.string(),
                          " is a run, not a folder of images; continue it with "
                          "--resume ",
                          given.string()));
  }
  if (!options.dry_run && options.print_config.empty()) check_run_folder(options, output);
  recipe = choose_recipe({options.config, options.weights, options.minutes}, device, registries);
  ExperimentConfig config = parse_experiment(recipe, kRecipe, options.overrides, schemas);
  for (const std::string& set : options.overrides) {
    recipe += cat("# This run had --set ", set, ", too.\n");
  }
  return config;
}

// The run folder for a folder of images.
fs::path output_for_folder(const TrainCommand& options) {
  if (!options.output.empty()) return options.output;
  if (!options.resume.empty() && options.resume != "auto" && fs::exists(options.resume)) {
    return run_folder_of(options.resume);
  }
  const std::string name = fs::canonical(options.config).filename().string();
  return fs::path("runs") / (name.empty() ? "images" : name);
}

ExperimentConfig load_config(const TrainCommand& options, const Registries& registries) {
  const ConfigSchemas schemas = registries.schemas();
  if (!options.config.empty()) {
    return load_experiment(find_config(options.config, schemas), options.overrides, schemas);
  }
  if (options.resume.empty() || options.resume == "auto") {
    throw ConfigError("--config is required, except with --resume DIR");
  }
  if (!fs::exists(options.resume)) {
    throw ConfigError(cat("--resume ", options.resume, ": no such folder"));
  }
  return load_experiment(run_folder_of(options.resume) / "config.yaml", options.overrides, schemas);
}

bool leaves_num_classes_out(const TrainCommand& options, const Registries& registries) {
  const ConfigSchemas schemas = registries.schemas();
  return !sets_key(find_config(options.config, schemas), options.overrides, schemas,
                   "model.num_classes");
}

// Fills in what a given config leaves open. A resumed run keeps the resizing method and the number
// of classes of its first config. A new run takes the number of classes from its training data.
void settle(const TrainCommand& options, const fs::path& output, const Registries& registries,
            ExperimentConfig& config) {
  if (options.config.empty()) return;
  const ConfigSchemas schemas = registries.schemas();
  const bool open_classes = leaves_num_classes_out(options, registries);
  const fs::path file = output / "config.yaml";
  if (options.resume.empty() || !fs::exists(file)) {
    if (open_classes) take_num_classes(config, registries);
    return;
  }
  const ExperimentConfig begun = load_experiment(file, {}, schemas);
  config = load_experiment(find_config(options.config, schemas), options.overrides, schemas,
                           begun.data.resample);
  if (open_classes) config.model.num_classes = begun.model.num_classes;
}

// Run folder, locked against other processes. The constructor creates it. The destructor removes a
// created folder that is still empty, for example because the data set is missing.
class RunFolder {
 public:
  explicit RunFolder(const fs::path& path)
      : path_(path),
        made_(fs::create_directories(path)),
        // A killed run may need a moment to end.
        lock_(path,
              cat("--output ", path.string(), ": another dtn-train is running in this folder"),
              std::chrono::seconds(3)) {}
  ~RunFolder() {
    std::error_code not_empty;
    if (made_) fs::remove(path_, not_empty);
  }
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

 private:
  fs::path path_;
  bool made_;
  DirectoryLock lock_;
};

void log_lines(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty()) log_info(line);
  }
}

// Names the keys of crops and mirroring whose values have no effect; empty: none.
std::string crop_warning(const ExperimentConfig& config) {
  const AugmentConfig &a = config.augment, usual;
  const bool of_classes = config.task == "classify" || config.task == "multilabel";
  const bool of_pixels = config.model.max_length == 0 && config.data.dataset != "tensors";
  if (a.preset != AugmentPreset::kNone || !of_classes || !of_pixels) return "";
  std::vector<std::string> unused;
  if (a.scale_min != usual.scale_min || a.scale_max != usual.scale_max) {
    unused.emplace_back("augment.scale");
  }
  if (a.ratio_min != usual.ratio_min || a.ratio_max != usual.ratio_max) {
    unused.emplace_back("augment.ratio");
  }
  if (a.hflip > 0 && a.hflip != usual.hflip) unused.emplace_back("augment.hflip");
  if (unused.empty()) return "";
  return cat(config::join(unused, ", "),
             ": no effect with augment.preset: none, which neither crops at random nor mirrors; "
             "set augment.preset: light");
}

int run_train(const TrainCommand& options, const Registries& registries) {
  Device device = options.machine.apply();
  Communicator& ranks = *job();
  check_folder_options(options);
  const bool folder_of_images = is_folder(options);
  const bool resume_folder = !options.resume.empty() && options.resume != "auto";
  ExperimentConfig config;
  std::string recipe;
  if (folder_of_images) {
    config = config_for_folder(options, output_for_folder(options), device, registries, recipe);
  } else {
    config = load_config(options, registries);
  }
  if (!recipe.empty() && !options.print_config.empty()) {
    std::fputs(recipe.c_str(), stdout);
    return kExitDone;
  }
  if (!options.print_config.empty()) {
    const bool commented = options.print_config == "commented" ||
                           (options.print_config == "auto" && isatty(STDOUT_FILENO) == 1);
    const std::string text =
        commented ? to_commented_yaml(config, registries.schemas()) : to_yaml(config);
    if (ranks.is_root()) std::fputs(text.c_str(), stdout);
    return kExitDone;
  }
  fs::path output = folder_of_images                              ? output_for_folder(options)
                    : !options.output.empty()                     ? fs::path(options.output)
                    : resume_folder && fs::exists(options.resume) ? run_folder_of(options.resume)
                                                                  : fs::path("runs") / config.name;
  if (!folder_of_images) settle(options, output, registries, config);
  const std::string unused_crops = crop_warning(config);
  if (ranks.is_root() && !unused_crops.empty()) log_warn(unused_crops);
  if (options.dry_run) {
    Communicator::Work measuring(ranks, "measuring", Communicator::Work::kLong);
    if (ranks.is_root())
      std::fputs(describe_run(config, output, device, registries).c_str(), stdout);
    return kExitDone;
  }
  TrainerOptions trainer;
  trainer.output = output;
  trainer.device = device;
  trainer.ranks = &ranks;
  trainer.commit = commit();
  trainer.report = [&registries](const fs::path& run) { write_run_report(run, registries); };
  trainer.registries = &registries;
  std::optional<RunFolder> folder;
  if (ranks.is_root()) {
    Communicator::Work reading(ranks, "looking for a checkpoint", Communicator::Work::kLong);
    // Lock first: the search for a checkpoint removes what looks like leftovers of a killed run.
    check_run_folder(options, output);
    folder.emplace(output);
    if (!recipe.empty()) {
      write_file_atomic(output / kRecipe, recipe);
      log_info(cat("config: ", (output / kRecipe).string()));
    }
    const std::string warning =
        memory_warning(config, device, ranks.size(), ranks.local_size(), registries);
    if (!warning.empty()) log_warn(warning);
    if (!options.resume.empty()) trainer.resume_from = resolve_resume(options.resume, output);
  }
  if (train(config, trainer) != RunStatus::kFinished) return kExitStopped;
  if (ranks.is_root() && !folder_of_images) {
    const std::string end =
        run_end_text(output, {{"report", output / "report.html"}}, next_commands(config, output));
    log_lines(end);
  }
  return kExitDone;
}

// Evaluates a run that is finished, with the page on its errors. Says what to do next.
int report_errors(const fs::path& run, const Registries& registries) {
  const std::string folder = run.string(), errors = (run / "errors").string();
  std::vector<std::string> words = {"dtn-eval", folder, "--report", errors};
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const int code = eval_main(static_cast<int>(words.size()), arguments.data(), registries);
  if (code != kExitDone) return code;
  const fs::path recipe = run / kRecipe;
  const std::string word = shell_word(folder);
  const std::string end =
      run_end_text(run,
                   {{"training", run / "report.html"},
                    {"errors", run / "errors/report.html"},
                    {"config", recipe}},
                   {cat("dtn-predict --checkpoint ", word, " IMAGE..."),
                    cat("dtn-train --config ", shell_word(recipe.string()), " --output ",
                        shell_word(folder + "-2")),
                    cat("dtn-export --checkpoint ", word, " --output model.onnx")});
  std::printf("\n%s", end.c_str());
  return code;
}

}  // namespace

int train_main(int argc, char** argv, const Registries& registries) {
  if (const Command* command = argc > 1 ? find_command(argv[1]) : nullptr) {
    // The sweep trains with this same program, which may have more registry entries than dtn-train.
    if (command->run == train_main) return train_main(argc - 1, argv + 1, registries);
    if (std::string_view(command->name) == "sweep") {
      return sweep_main(argc - 1, argv + 1, registries, fs::read_symlink("/proc/self/exe"));
    }
    return command->run(argc - 1, argv + 1, registries);
  }
  CLI::App app{
      "Trains a model from a config file, or on a folder of images by a config that it chooses.\n"
      "If the first word is `eval`, `predict`, `analyze`, `plot`, `export`, `sweep`, `info`,\n"
      "`data` or `bench`, it runs that program: dtn-eval and so on.",
      "dtn-train"};
  TrainCommand options;
  app.add_option(
      "--config,config", options.config,
      "config file; or the name of a config that dtn-info --configs lists, such as vit_s_star_dtn; "
      "or a folder of images, in class folders or with a table of labels: then dtn-train chooses a "
      "config, writes it to recipe.yaml in the run folder, trains, and reports errors on the "
      "validation images; see docs/own-images.md");
  app.add_option(
      "--weights", options.weights,
      "with a folder of images: start from these weights, a run, a safetensors file, a folder of a "
      "Hugging Face hub model or a public model that dtn-get has fetched (default: from scratch)");
  app.add_option("--minutes", options.minutes,
                 "with a folder of images: time for the run on this machine")
      ->check(CLI::Range(0.05, 1e6))
      ->capture_default_str();
  add_overrides(app, options.overrides, "override one key: --set optim.lr=1e-3 (repeatable)");
  app.add_option("--output", options.output, "run folder (default: runs/<name of the config>)");
  app.add_option("--resume", options.resume,
                 "auto: continue the run in the output folder, if there is one; DIR: continue from "
                 "this run or checkpoint folder")
      ->type_name("auto|DIR");
  app.add_flag("--print-config{auto}", options.print_config,
               "print the resolved config and exit; =commented explains each key (the default on a "
               "terminal), =plain does not")
      ->check(CLI::IsMember({"auto", "commented", "plain"}));
  app.add_flag("--dry-run", options.dry_run,
               "measure a few steps, print the size, memory and time of the run, and exit");
  options.machine.add_to(app);
  options.machine.add_ranks_to(app);
  const int code = run_program(app, argc, argv, Processes::kSeveral,
                               [&] { return run_train(options, registries); });
  const bool is_over = code == kExitDone && is_folder(options) && options.print_config.empty();
  if (!is_over || options.dry_run) return code;
  return report_errors(output_for_folder(options), registries);
}

}  // namespace dtn::app
