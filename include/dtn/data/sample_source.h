// Sources of a task's samples: named fields that worker threads write into the rows of a batch. The
// rows are copied to the device and finished there. Only the source and the task know the meaning
// of the fields.
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

// One row of the fields of a batch, on the host, for a source to fill.
class FieldRow {
 public:
  FieldRow(Fields& fields, std::int64_t row) : fields_(fields), row_(row) {}

  // The elements of a field that is not ragged. T must be the element type of the field.
  template <class T>
  std::span<T> at(std::string_view field) const {
    DTN_CHECK(!fields_.has(lengths_of(field)), "field '", field,
              "' is ragged, so it needs a length");
    return elements<T>(field);
  }

  // The elements of the first `length` rows of a ragged field; the rows after them become zero.
  // Throws Error if `length` exceeds the rows of the field.
  template <class T>
  std::span<T> ragged(std::string_view field, std::int64_t length) const {
    const std::span<T> all = elements<T>(field);
    const std::int64_t most = fields_.at(field).dim(1);
    DTN_CHECK(0 <= length && length <= most, "field '", field, "' has room for ", most,
              " rows, not ", length);
    const std::size_t used =
        most > 0 ? all.size() / static_cast<std::size_t>(most) * static_cast<std::size_t>(length)
                 : 0;
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

  Fields& fields_;
  std::int64_t row_;
};

// Processes a whole batch on the compute device, such as normalizing and mixing.
class BatchFinisher {
 public:
  virtual ~BatchFinisher() = default;

  // Computes the n rows of the device batch from the n rows of the host batch. `host_batch`
  // includes the lengths of ragged fields. All fields are on the device. A field that is in both is
  // present in `device_batch` already and may be changed in place; on the CPU it shares its memory
  // with `host_batch`. Returns once the work is enqueued on the compute stream.
  //
  // A rank sees only its own rows (rows_of_rank() in data/feed/epoch_plan.h). Row i and row
  // n - 1 - i of a rank are a row of the global batch and its mirror image. The result for a pair
  // may depend only on the pair and the key, or batches would differ with the number of ranks.
  virtual void finish(const Fields& host_batch, const BatchKey& key, Fields& device_batch) = 0;
};

class Dataset;

// A source of samples. Immutable and thread-safe.
class SampleSource {
 public:
  // The buffers of one thread, reused from sample to sample.
  struct Workspace {
    virtual ~Workspace() = default;
  };

  virtual ~SampleSource() = default;
  SampleSource(const SampleSource&) = delete;
  SampleSource& operator=(const SampleSource&) = delete;

  // Number of samples.
  virtual std::int64_t size() const = 0;
  // One line for messages: kind, location and size.
  virtual const std::string& description() const = 0;
  // The word for samples in messages, in the plural: "images".
  virtual std::string noun() const { return "samples"; }
  // Name of a sample for messages: its file, or file and index.
  virtual std::string sample_name(std::int64_t index) const { return cat("sample ", index); }
  // Class names in label order; empty if there are no classes, or their names are unknown.
  virtual std::vector<std::string> class_names() const { return {}; }
  // Identity of a sample including its label, independent of the location of the data set. Machines
  // with equal identities have the same data set.
  virtual std::string identity(std::int64_t index) const { return std::to_string(index); }
  // The data set that sample i is made from, at position i; null: there is none.
  virtual const Dataset* source_dataset() const { return nullptr; }

  // Class of each sample; empty: there are no classes, or they are unknown.
  virtual std::vector<std::int64_t> labels() const { return {}; }

  // Length of each sample, if shuffled batches should contain samples of similar length; empty:
  // lengths do not matter.
  virtual std::vector<std::int64_t> lengths() const { return {}; }

  // Group of each sample, if all samples of a shuffled batch should be of one group, such as images
  // of one orientation; empty: samples have no groups. Not together with lengths().
  virtual std::vector<std::uint8_t> groups() const { return {}; }

  // The fields that make() fills. Ragged fields are padded to FieldSpec::row; their lengths
  // (lengths_of(), [n] int64) belong to it too.
  virtual std::vector<FieldSpec> host_fields() const = 0;
  // Makes the buffers that a thread passes to make().
  virtual std::unique_ptr<Workspace> make_workspace() const {
    return std::make_unique<Workspace>();
  }
  // Fills a row of all host fields; the memory is uninitialised. Throws DataError if the sample
  // is damaged.
  virtual void make(std::int64_t index, const SampleKey& key, FieldRow& row,
                    Workspace& workspace) const = 0;

  // The fields that a step receives on the device. A field equal to a host field is passed on;
  // the finisher writes the others. Every batch has the fields at the same addresses, as a captured
  // step requires.
  virtual std::vector<FieldSpec> device_fields() const { return host_fields(); }
  // Null if nothing is left to do on the device.
  virtual std::unique_ptr<BatchFinisher> make_finisher(Device) const { return nullptr; }

 protected:
  SampleSource() = default;
};

}  // namespace dtn
