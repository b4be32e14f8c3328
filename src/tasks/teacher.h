// A trained classifier that a student learns to agree with: fixed weights, evaluation mode, no
// gradient.
#pragma once

#include <filesystem>
#include <string>

#include "dtn/data/class_list.h"
#include "dtn/models/classifier.h"
#include "dtn/tasks/task.h"

namespace dtn {

class Teacher {
 public:
  // Opens the teacher that setup.config.distill names, on the device, computing in `compute`. On
  // kMeta its weights have no values. `learnt` are the student's classes; the teacher's logits are
  // those of its classes of the same names. Throws ConfigError where there is no teacher, it sees
  // images of another size or, without names, has another number of classes; DataError for a
  // class that it does not have, and for what is wrong with its weights.
  Teacher(const TaskSetup& setup, DType compute, const ClassList& learnt);

  // Logits [B, K] float32 for the images of a student's batch, which are normalised as the student
  // wants them.
  Tensor logits(const Fields& batch);

  // Tells its weights apart from all others; 16 hexadecimal digits.
  const std::string& fingerprint() const { return fingerprint_; }
  std::string description() const;  // for people
  std::int64_t parameters() const { return model_.parameters().count(); }

 private:
  struct Source;  // the file of the weights and the config that belongs to them
  Teacher(const TaskSetup& setup, DType compute, const ClassList& learnt, const Source& source);

  static Source open(const TaskSetup& setup);
  Tensor as_it_sees(const Tensor& images) const;

  ModelConfig config_;
  DType compute_;
  Classifier model_;
  std::string fingerprint_;
  // What brings the student's images to the teacher's mean and deviation, [1, C, 1, 1] each;
  // undefined where they are the same.
  Tensor scale_, shift_;
};

// What a checkpoint says in place of where the teacher's weights lay.
std::string named_by_fingerprint(const std::string& fingerprint);

}  // namespace dtn
