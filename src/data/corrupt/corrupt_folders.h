// Writes corrupted images into folders, as `dtn-data corrupt` does.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/corrupt/corruption_io.h"
#include "data/source/inspect.h"

namespace dtn {

// Settings that a folder of corrupted images was made with, stored in it as corruptions.txt.
struct CorruptRecord {
  std::uint64_t seed = 0;
  CorruptFormat format = CorruptFormat::kJpeg;
  std::string frost;  // FrostTextures::identity(); empty without frost
};

// Returns the record of a folder, if it has one. Throws DataError if the file is not a record.
std::optional<CorruptRecord> read_corrupt_record(const std::filesystem::path& folder);

// Merges `record` into the record of the folder. Throws ConfigError if they contradict each other,
// because the folder would mix images of two kinds.
void extend_corrupt_record(const std::filesystem::path& folder, CorruptRecord record);

struct CorruptOptions {
  std::string output;
  std::vector<CorruptionCell> cells;
  std::uint64_t seed = 0;
  CorruptFormat format = CorruptFormat::kJpeg;
  std::shared_ptr<const FrostTextures> frost;  // needed if frost is among the cells
  int jobs = 1;
};

// Estimate of the work. Bytes and seconds are extrapolated from a few images, for which all cells
// are made in memory. They are zero if no image was requested or none could be read.
struct CorruptPlan {
  std::int64_t images = 0, files = 0;
  std::int64_t there = 0;  // files that already exist
  double bytes = 0;        // size of all files
  double seconds = 0;      // time to make the missing files
};

struct CorruptReport {
  std::int64_t images = 0, files = 0;
  std::int64_t there = 0, made = 0;   // files of earlier runs, files of this run
  std::int64_t bytes = 0;             // size of the files made
  std::vector<BadSample> unreadable;  // their files are missing
  bool stopped = false;               // another run continues from here
};

// The images of a data set and their output files <output>/<corruption>/<severity>/<class>/<file>,
// of 224 x 224 pixels. The bytes of a file depend only on the image, its name, the seed, the format
// and the encoding libraries.
class CorruptFolders {
 public:
  // Names all files. Throws DataError if two images would become the same file.
  CorruptFolders(const Dataset& dataset, CorruptOptions options);

  // Looks up which files exist, and makes `samples` images for the estimate.
  CorruptPlan plan(int samples) const;

  // Makes the missing files; an empty file counts as missing. Deletes half-written files of a
  // killed run. An image that cannot be read is passed to `on_unreadable` and skipped. `keep_going`
  // is called on the calling thread with the number of finished files; false ends the work. Throws
  // ConfigError if the output was made with other settings or another process is writing there, and
  // Error if the system refuses.
  CorruptReport run(const std::function<bool(std::int64_t done)>& keep_going = {},
                    const std::function<void(const BadSample&)>& on_unreadable = {}) const;

 private:
  std::string path(const CorruptionCell& cell, const std::string& file) const;
  std::vector<bool> find_finished(std::int64_t& there) const;  // [image, cell]
  void make_folders() const;

  const Dataset& dataset_;
  CorruptOptions options_;
  std::vector<std::string> items_, files_;  // by image: item, file name
};

}  // namespace dtn
