// Where the samples of a task come from: fields by name, made by worker threads into the rows of a
// batch, carried to the device, and finished there. What the fields mean is known to the source and
// to the task alone.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dtn/core/check.h"
#include "dtn/core/device.h"
#include "dtn/core/fields.h"
#include "dtn/data/sample_key.h"

namespace dtn {

// One row of the fields of a batch, on the host, as a source sees it.
class FieldRow {
 public:
  FieldRow(Fields& fields, std::int64_t row) : fields_(fields), row_(row) {}

  // The elements of a field that is not ragged. T must be its element type.
  template <class T>
  std::span<T> at(std::string_view field) const {
    DTN_CHECK(!fields_.has(lengths_of(field)), "field '", field, "' is ragged: it needs a length");
    return elements<T>(field);
  }

  // The elements of the first `length` rows of a ragged field; the rows behind them become zero.
  // Throws Error where the field has no room for as many.
  template <class T>
  std::span<T> ragged(std::string_view field, std::int64_t length) const {
    const std::span<T> all = elements<T>(field);
    const std::size_t used = used_of(field, length, all.size());
    elements<std::int64_t>(lengths_of(field))[0] = length;
    std::fill(all.begin() + static_cast<std::ptrdiff_t>(used), all.end(), T{});
    return all.first(used);
  }

 private:
  template <class T>
  std::span<T> elements(std::string_view field) const {
    Tensor& tensor = fields_.at(field);
    const std::int64_t each = tensor.numel() / tensor.dim(0);
    return {tensor.data<T>() + row_ * each, static_cast<std::size_t>(each)};
  }
  // How many of the `all` elements of a row lie in its first `length` rows.
  std::size_t used_of(std::string_view field, std::int64_t length, std::size_t all) const;

  Fields& fields_;
  std::int64_t row_;
};

// What is done to a whole batch on the device that computes, such as normalizing and mixing.
class BatchFinisher {
 public:
  virtual ~BatchFinisher() = default;

  // Makes of the n rows of the fields that were carried, with the lengths of those that are ragged,
  // n rows of those to deliver; all lie on the device. A field that is delivered as it was carried
  // is there already and may be changed in place: on the CPU its memory is that in `carried`.
  // Returns once everything is enqueued for computing.
  //
  // A rank sees its own rows only (rows_of_rank() in data/feed/epoch_plan.h). Row i and row
  // n - 1 - i are there a row of the global batch and its mirror image; what is done to a pair may
  // depend on the pair and on the key alone, or batches would differ with the number of ranks.
  virtual void finish(const Fields& carried, const BatchKey& key, Fields& delivered) = 0;
};

// Immutable and safe to share between threads.
class SampleSource {
 public:
  // The buffers of one thread, used again from sample to sample.
  struct Workspace {
    virtual ~Workspace() = default;
  };

  virtual ~SampleSource() = default;
  SampleSource(const SampleSource&) = delete;
  SampleSource& operator=(const SampleSource&) = delete;

  virtual std::int64_t size() const = 0;
  // One line for people: what it is, where it lies, how large it is.
  virtual const std::string& description() const = 0;
  // What samples are, in the plural, for messages: "images".
  virtual std::string noun() const { return "samples"; }
  // What to call a sample in messages: its file, or file and index.
  virtual std::string sample_name(std::int64_t index) const { return cat("sample ", index); }
  // What the classes of the samples are called, in the order of their labels; empty where there are
  // none, or nobody knows.
  virtual std::vector<std::string> class_names() const { return {}; }
  // What a sample is, label and all, wherever the data set lies: machines that agree on these have
  // the same data set.
  virtual std::string identity(std::int64_t index) const { return std::to_string(index); }

  // How long each sample is, where batches that are shuffled are to consist of samples of about equal
  // length; empty: of any.
  virtual std::vector<std::int64_t> lengths() const { return {}; }

  // The fields that make() fills. Those that are ragged are padded to FieldSpec::row, and
  // lengths_of() them is carried along, [n] int64.
  virtual std::vector<FieldSpec> carried() const = 0;
  virtual std::unique_ptr<Workspace> make_workspace() const {
    return std::make_unique<Workspace>();
  }
  // Fills a row of all fields that are carried: the memory holds anything before. Throws DataError
  // when the sample is damaged.
  virtual void make(std::int64_t index, const SampleKey& key, FieldRow& row,
                    Workspace& workspace) const = 0;

  // The fields that come out on the device. One that equals a carried field is carried over; the
  // others are the finisher's to write. Every batch has them at the same addresses, as a captured
  // step needs it.
  virtual std::vector<FieldSpec> delivered() const { return carried(); }
  // Null where nothing is left to be done.
  virtual std::unique_ptr<BatchFinisher> make_finisher(Device) const { return nullptr; }

 protected:
  SampleSource() = default;
};

}  // namespace dtn
