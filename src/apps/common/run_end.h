// The last lines of a run: its best figure, its files, and commands for the next steps.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "dtn/config/train_config.h"

namespace dtn::app {

// Returns a path as a word of a shell command: in quotes if it needs them.
std::string shell_word(const std::string& path);

// Returns "top-1 87.59 % at step 2808" from the run's summary.json; empty if there is none, or if
// the run was not evaluated.
std::string best_of_run(const std::filesystem::path& run);

// Returns up to three commands that suit the task and the data of a finished run.
std::vector<std::string> next_commands(const ExperimentConfig& config,
                                       const std::filesystem::path& run);

// A line of the list of files: what it is, and where.
struct NamedFile {
  std::string name;
  std::filesystem::path path;
};

// Returns the lines. `files` are listed below the checkpoint, if they exist.
std::string run_end_text(const std::filesystem::path& run, const std::vector<NamedFile>& files,
                         const std::vector<std::string>& commands);

}  // namespace dtn::app
