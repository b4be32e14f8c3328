// The pictures that a task draws during a run, such as samples of a diffusion model.
#pragma once

#include <filesystem>

#include "train/record/run_recorder.h"

namespace dtn {

// Every rank has this object and makes the same calls. Only the first rank writes.
class TaskPictures {
 public:
  // The arguments must outlive the object.
  TaskPictures(Learner& learner, const std::filesystem::path& run, const RunProgress& progress,
               RunRecorder& recorder, Communicator& ranks)
      : learner_(learner), run_(run), progress_(progress), recorder_(recorder), ranks_(ranks) {}

  // Draws and writes the picture of the current step, with the average of the weights if the run
  // has one. An error is logged, and the run goes on. A task that a signal has stopped returns an
  // empty picture, which is not written.
  void draw();
  // The same if the file of the current step is absent: the run was stopped while it was drawn.
  void draw_missing();

 private:
  Image drawn();

  Learner& learner_;
  const std::filesystem::path& run_;
  const RunProgress& progress_;
  RunRecorder& recorder_;
  Communicator& ranks_;
  bool failed_ = false;
};

}  // namespace dtn
