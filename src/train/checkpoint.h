// Checkpoints on disk. A run folder holds
//    checkpoints/step-<8 digits>/{model,ema,state}.safetensors     ema only if EMA is on
//    checkpoints/last, checkpoints/best, checkpoints/confirmed     relative symbolic links
//    checkpoints/diverged-step-<8 digits>                          see retreat_to_confirmed()
// A folder with a step name is always complete. It is written under another name, synced and
// renamed, and it is renamed again before it is deleted. Checksums cover every bit.
//
// A checkpoint is confirmed once a loss computed from its weights is finite. `confirmed` names the
// newest confirmed checkpoint. Older checkpoints are confirmed as well: training went on from them.
// If there is no `confirmed`, the metadata of `last` may say that `last` is confirmed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "dtn/io/safetensors.h"

namespace dtn {

// Key in the metadata of state.safetensors: an evaluation of these weights had a finite loss.
inline constexpr const char* kConfirmedKey = "confirmed";

struct CheckpointData {
  NamedTensors model;
  NamedTensors ema;          // empty if EMA is off
  NamedTensors state;        // optimizer moments and other tensors that a resume needs
  StringMap state_metadata;  // epoch, position, seed, best, ...; only in state.safetensors
  std::vector<std::string> class_names;  // in model and ema, if the training data has class names
  // Thresholds of the probabilities of classes in model and ema, see tasks/multilabel/threshold.h.
  std::optional<double> threshold, ema_threshold;
  std::string config_yaml;  // the resolved configuration, in every file
  std::int64_t step = 0;
};

// Steps whose checkpoints are never deleted.
struct PermanentSteps {
  bool first = false;      // step 0
  std::int64_t every = 0;  // and the multiples of this number; 0: none

  bool contains(std::int64_t step) const {
    return step == 0 ? first : every > 0 && step % every == 0;
  }
};

// Writes step `data.step` durably, and replaces an older folder of the same step. Points `last` at
// it, `best` if the step is `best_step`, and `confirmed` if the metadata has kConfirmedKey. Then
// deletes older steps. Keeps the newest `keep` up to this one, those that `last`, `best` and
// `confirmed` point to, `best_step`, and the permanent steps. Keeps steps after this one, too
// (the run was wound back). The contents of model.safetensors and ema.safetensors depend only on
// `data`. Throws Error if the system fails (disk full); earlier checkpoints are then unchanged.
void save_checkpoint(const std::filesystem::path& run_dir, const CheckpointData& data, int keep,
                     std::optional<std::int64_t> best_step = std::nullopt,
                     const PermanentSteps& permanent = {});

// Points `best` at a saved step. Throws Error if the step has no checkpoint.
void mark_best(const std::filesystem::path& run_dir, std::int64_t step);

// For a run that goes on from the checkpoint `resumed`, whose best step is `best_step`: points
// `best` at it, because a run that was wound back may have marked a later one. Copies the
// checkpoint of that step if `resumed` belongs to another run. Returns false, and removes `best`,
// if there is no best step or if its checkpoint does not exist any more.
bool continue_best(const std::filesystem::path& run_dir, const std::filesystem::path& resumed,
                   std::optional<std::int64_t> best_step);

// Points `confirmed` at a saved step, durably, and deletes older steps as save_checkpoint() does.
// Does nothing if `confirmed` points there already, or if the checkpoint has been deleted.
void confirm_checkpoint(const std::filesystem::path& run_dir, std::int64_t step, int keep,
                        std::optional<std::int64_t> best_step = std::nullopt,
                        const PermanentSteps& permanent = {});

// Removes the link `confirmed` from the folder of a finished run, if it points at the same step as
// `last` and the metadata of `last` says that `last` is confirmed.
void drop_confirmed_link(const std::filesystem::path& run_dir);

// The checkpoints after a divergence.
struct Retreat {
  std::optional<std::filesystem::path> confirmed;  // target of `last`; unset: none is confirmed
  std::optional<std::filesystem::path> set_aside;  // new name; unset: all are confirmed
};

// Points `last` at the newest confirmed checkpoint of a run that diverged. `newest` is the step of
// the newest checkpoint of that run, if it has one. If that checkpoint is not confirmed, it is set
// aside: renamed to diverged-step-<8 digits>, where nothing resumes from it. Only the newest folder
// of that kind stays. If `best` was set aside, `best` points at the best confirmed checkpoint
// again. Folders of earlier versions have neither `confirmed` nor that metadata. There a checkpoint
// is confirmed if a later one has made more updates. A kill at any moment leaves a folder that
// resumes.
Retreat retreat_to_confirmed(const std::filesystem::path& run_dir,
                             std::optional<std::int64_t> newest);

// Reads and verifies a checkpoint folder, or a link to one. Tensors are sorted by name. Throws
// DataError naming the file and the fault.
CheckpointData load_checkpoint(const std::filesystem::path& dir);

// Returns the checkpoint to resume from, verified: the target of `last`, else the newest older
// checkpoint, else the newest. Warns about each damaged checkpoint that it skips. Deletes leftovers
// of a killed save. Nothing if the run has no checkpoint. Throws DataError if all are damaged.
std::optional<std::filesystem::path> find_resumable(const std::filesystem::path& run_dir);

// run_dir/checkpoints/step-00000123
std::filesystem::path checkpoint_path(const std::filesystem::path& run_dir, std::int64_t step);

}  // namespace dtn
