// Results of an evaluation.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dtn {

class Communicator;
class Fields;
struct DetectionExamples;  // dtn/core/detection_examples.h

// Named results, in the order in which they are shown and logged.
struct Metrics {
  std::vector<std::pair<std::string, double>> values;
  std::string primary;  // name of the result that decides which checkpoint is the best
  bool higher_is_better = true;
  std::string text{};  // the same for people: "top-1 87.83 %  loss 0.3241"

  // Throws Error, listing the known names, if there is no result with this name.
  double at(std::string_view name) const;
  double primary_value() const { return at(primary); }
  // True if `a` is a better value of the primary result than `b`.
  bool better(double a, double b) const { return higher_is_better ? a > b : a < b; }
};

// A sample of a data set, by its position in it.
struct SimilarSample {
  std::int64_t index = 0;
  std::optional<std::int64_t> label;  // unset: unknown
  double similarity = 0;              // to the sample that it is compared with: cosine of features
};

// An evaluated sample and the references nearest to it, for pictures.
struct NeighborExample {
  SimilarSample sample;
  std::optional<std::int64_t> vote;    // label for which the nearest references vote; unset: none
  std::vector<SimilarSample> nearest;  // the most similar first
};

// Accumulates the results of an evaluation batch by batch.
class Meter {
 public:
  virtual ~Meter() = default;
  // Adds a batch and the task's outputs for it, both on the host. `batch` holds "index" [n] int64,
  // the positions of its samples in the data set.
  virtual void add(const Fields& batch, const Fields& outputs) = 0;
  // Adds a batch of Task::references(), before the first add().
  virtual void add_reference(const Fields& batch, const Fields& outputs) {
    static_cast<void>(batch), static_cast<void>(outputs);
  }
  // Merges the results of the other ranks. Afterwards all ranks have the same result, bit-identical
  // to that of a single process.
  virtual void merge(Communicator& ranks) = 0;
  // The results of all batches so far.
  virtual Metrics result() const = 0;
  // Some samples with their nearest references; empty if the meter does not compare. After merge()
  // all ranks have the same.
  virtual std::vector<NeighborExample> examples() const { return {}; }
  // Some images with their truths and detections; null if the task does not detect objects. After
  // merge() all ranks have the same.
  virtual std::shared_ptr<const DetectionExamples> detections() const { return nullptr; }
};

}  // namespace dtn
