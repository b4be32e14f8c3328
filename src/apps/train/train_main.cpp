#include "dtn/app/train_main.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/common/commands.h"
#include "apps/common/program.h"
#include "apps/estimate/run_size.h"
#include "apps/report/run_figures.h"
#include "dtn/app/sweep_main.h"
#include "dtn/config/load.h"
#include "dtn/core/check.h"
#include "dtn/core/log.h"
#include "dtn/nn/normalizer.h"
#include "io/posix.h"
#include "train/trainer.h"

namespace dtn::app {
namespace {

namespace fs = std::filesystem;

struct TrainCommand {
  std::string config, output, resume;
  std::string print_config;  // empty: the option is absent
  std::vector<std::string> overrides;
  bool dry_run = false;
  MachineOptions machine;
};

// Returns the run folder for `--resume DIR`: DIR itself, or two levels above a checkpoint.
fs::path run_folder_of(const fs::path& dir) {
  fs::path absolute = fs::canonical(dir);
  return fs::exists(absolute / "state.safetensors") ? absolute.parent_path().parent_path()
                                                    : absolute;
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

int run_train(const TrainCommand& options, const Registries& registries) {
  Device device = options.machine.apply();
  Communicator& ranks = *job();
  ExperimentConfig config = load_config(options, registries);
  if (!options.print_config.empty()) {
    const bool commented = options.print_config == "commented" ||
                           (options.print_config == "auto" && isatty(STDOUT_FILENO) == 1);
    const std::string text =
        commented ? to_commented_yaml(config, registries.schemas()) : to_yaml(config);
    if (ranks.is_root()) std::fputs(text.c_str(), stdout);
    return kExitDone;
  }
  bool resume_folder = !options.resume.empty() && options.resume != "auto";
  fs::path output = !options.output.empty()                       ? fs::path(options.output)
                    : resume_folder && fs::exists(options.resume) ? run_folder_of(options.resume)
                                                                  : fs::path("runs") / config.name;
  settle(options, output, registries, config);
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
  trainer.report = write_run_report;
  trainer.registries = &registries;
  std::optional<RunFolder> folder;
  if (ranks.is_root()) {
    Communicator::Work reading(ranks, "looking for a checkpoint", Communicator::Work::kLong);
    // Lock first: the search for a checkpoint removes what looks like leftovers of a killed run.
    check_run_folder(options, output);
    folder.emplace(output);
    const std::string warning =
        memory_warning(config, device, ranks.size(), ranks.local_size(), registries);
    if (!warning.empty()) log_warn(warning);
    if (!options.resume.empty()) trainer.resume_from = resolve_resume(options.resume, output);
  }
  return train(config, trainer) == RunStatus::kFinished ? kExitDone : kExitStopped;
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
      "Trains a model from a config file.\n"
      "If the first word is `eval`, `predict`, `analyze`, `plot`, `export`, `sweep`, `info`,\n"
      "`data` or `bench`, it runs that program: dtn-eval and so on.",
      "dtn-train"};
  TrainCommand options;
  app.add_option(
      "--config,config", options.config,
      "config file, or the name of a config that dtn-info --configs lists, such as vit_s_star_dtn");
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
  return run_program(app, argc, argv, Processes::kSeveral,
                     [&] { return run_train(options, registries); });
}

}  // namespace dtn::app
