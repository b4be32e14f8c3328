// Checkpoints on disk. A run folder holds
//   checkpoints/step-<8 digits>/{model,ema,state}.safetensors     ema only when EMA is on
//   checkpoints/last, checkpoints/best, checkpoints/confirmed     relative symbolic links
//   checkpoints/diverged-step-<8 digits>                          see retreat_to_confirmed()
// A folder under a step name is always complete: it is written aside, synced and renamed, and
// leaves its name before it is deleted. Every bit is covered by a checksum.
//
// A checkpoint is confirmed once a loss computed from its weights is finite. `confirmed` names the
// newest such checkpoint. Older checkpoints are confirmed as well: training went on from them. Where
// there is no `confirmed`, the metadata of `last` may say that it is confirmed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "dtn/io/safetensors.h"

namespace dtn {

// A key in the metadata of state.safetensors: an evaluation of these weights had a finite loss.
inline constexpr const char* kConfirmedKey = "confirmed";

struct CheckpointData {
  NamedTensors model;
  NamedTensors ema;    // empty when EMA is off
  NamedTensors state;  // optimizer moments and whatever else a resume needs
  StringMap
      state_metadata;  // epoch, position, seed, best_top1, ...; goes to state.safetensors only
  std::vector<std::string> class_names;  // in model and ema, where the training data names them
  std::string config_yaml;               // the resolved configuration, in every file
  std::int64_t step = 0;
};

// Writes step `data.step`, durably, and points `last` at it, `best` when it is `best_step`, and
// `confirmed` when its metadata has kConfirmedKey; an older folder of the same step is replaced.
// Then deletes older steps, except the newest `keep` up to this one, those that `last`, `best` and `confirmed`
// point to, `best_step`, and with `keep_first` step 0. Steps after this one (the run was wound
// back) are left alone. Nothing in model.safetensors and ema.safetensors depends on anything but
// `data`. Throws Error when the system refuses (disk full): earlier checkpoints are then untouched.
void save_checkpoint(const std::filesystem::path& run_dir, const CheckpointData& data, int keep,
                     std::optional<std::int64_t> best_step = std::nullopt, bool keep_first = false);

// Points `best` at a saved step. Throws Error when there is no such checkpoint.
void mark_best(const std::filesystem::path& run_dir, std::int64_t step);

// Points `confirmed` at a saved step, durably, and deletes older steps as save_checkpoint() does.
// Does nothing if it points there already, or if the checkpoint has been deleted.
void confirm_checkpoint(const std::filesystem::path& run_dir, std::int64_t step, int keep,
                        std::optional<std::int64_t> best_step = std::nullopt,
                        bool keep_first = false);

// Removes `confirmed` from the folder of a finished run, if the metadata of `last` say as much.
void drop_confirmed_link(const std::filesystem::path& run_dir);

// The checkpoints after a divergence.
struct Retreat {
  std::optional<std::filesystem::path> confirmed;  // where `last` points now; nothing: none is
  std::optional<std::filesystem::path> set_aside;  // under its new name; nothing: all are confirmed
};

// Points `last` at the newest confirmed checkpoint of a run that diverged. `newest` is the step of
// the newest checkpoint of that run, if it has one. Unless that checkpoint is confirmed it is set
// aside: renamed to diverged-step-<8 digits>, where nothing resumes from it. Only the newest folder
// of that kind stays. If `best` was set aside, it points at the best confirmed one again.
// Folders of earlier versions have neither `confirmed` nor that metadata. There a checkpoint is
// confirmed if a later one has made more updates. A kill at any moment leaves a folder that resumes.
Retreat retreat_to_confirmed(const std::filesystem::path& run_dir,
                             std::optional<std::int64_t> newest);

// Reads and verifies a checkpoint folder, or a link to one. Tensors come sorted by name.
// Throws DataError naming the file and the fault.
CheckpointData load_checkpoint(const std::filesystem::path& dir);

// The checkpoint to go on from, verified: the one `last` points to, else the newest older one, else
// the newest. Each damaged one passed over is named in a warning. Deletes what a killed save left
// behind. Nothing when the run has no checkpoint at all; throws DataError when all are damaged.
std::optional<std::filesystem::path> find_resumable(const std::filesystem::path& run_dir);

// run_dir/checkpoints/step-00000123
std::filesystem::path checkpoint_path(const std::filesystem::path& run_dir, std::int64_t step);

}  // namespace dtn
