// A trained classifier whose outputs a student imitates: fixed weights, evaluation mode, no
// gradient.
#pragma once

#include <filesystem>
#include <string>

#include "dtn/data/dataset.h"
#include "dtn/models/classifier.h"
#include "dtn/tasks/task.h"

namespace dtn {

class Teacher {
 public:
  // Opens the teacher of setup.config.distill on the device, with the compute type `compute`. On
  // kMeta its weights have no values. `learnt` are the student's classes; the teacher's logits are
  // those of its classes with the same names. Throws ConfigError if there is no teacher, if its
  // images have another size, or, without class names, if its number of classes differs. Throws
  // DataError if the teacher lacks a class or if its weights are invalid.
  Teacher(const TaskSetup& setup, DType compute, const ClassList& learnt);

  // Returns logits [B, K] float32 for the images of a student's batch, which have the student's
  // normalization.
  Tensor logits(const Fields& batch);

  // Identifies the teacher's weights; 16 hexadecimal digits.
  const std::string& fingerprint() const { return fingerprint_; }
  std::string description() const;  // for people
  std::int64_t parameters() const { return model_.parameters().count(); }

 private:
  struct Source;  // the file with the weights, and its config
  Teacher(const TaskSetup& setup, DType compute, const ClassList& learnt, const Source& source);

  static Source open(const TaskSetup& setup);
  Tensor as_it_sees(const Tensor& images) const;

  ModelConfig config_;
  DType compute_;
  Classifier model_;
  std::string fingerprint_;
  // Converts the student's images to the teacher's mean and deviation, [1, C, 1, 1] each; undefined
  // if they are the same.
  Tensor scale_, shift_;
};

// Text that replaces the path of the teacher's weights in a checkpoint.
std::string named_by_fingerprint(const std::string& fingerprint);

}  // namespace dtn
