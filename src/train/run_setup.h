// Setup of a training run: its task, its data, and the weights that it starts with.
#pragma once

#include <memory>
#include <string>

#include "data/feed/open_split.h"
#include "train/learner.h"
#include "train/snapshot.h"
#include "train/trainer.h"

namespace dtn {

// Makes the task of a config. Throws ConfigError if a rank would train a classifier's BatchNorm on
// a single value per channel.
std::unique_ptr<Task> open_task(const ExperimentConfig& config, const TrainerOptions& options,
                                const Communicator& ranks);

// Opens a split of a run; null: the config has no validation split. Open the training split first:
// the task learns its classes. Throws DataError if the data sets of the ranks differ.
std::unique_ptr<OpenSplit> open_run_split(Task& task, const ExperimentConfig& config, Split split,
                                          Device device, Communicator& ranks);

// Opens the samples with which the task's evaluations compare; null: none.
std::unique_ptr<OpenSplit> open_references(Task& task, const ExperimentConfig& config,
                                           Device device, Communicator& ranks);

// Loads the weights of a checkpoint or of model.init_weights on the first rank, and copies them to
// all ranks. Returns the progress at which the run starts. Throws ConfigError or DataError if the
// checkpoint belongs to another run.
RunProgress load_start(const ExperimentConfig& config, const TrainerOptions& options,
                       OpenSplit& training, Learner& learner, Communicator& ranks);

// Messages about the classes of the training samples; empty: nothing to say.
struct ClassRemarks {
  std::string sampling;  // the classes that data.sampling: balanced draws from
  std::string classes;   // very uneven classes and the keys that help, or keys that help twice
};
ClassRemarks class_remarks(const ExperimentConfig& config, const SampleSource& training,
                           const Registries& registries);

// Describes the device: "cpu, 2 threads", "2 processes with NVIDIA H200 each".
std::string device_text(Device device, const Communicator& ranks);

}  // namespace dtn
