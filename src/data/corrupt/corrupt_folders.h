// Writing corrupted images into folders, as `dtn-data corrupt` does.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "data/corrupt/chain.h"
#include "data/source/inspect.h"

namespace dtn {

struct CorruptOptions {
  std::string output;
  std::vector<CorruptionCell> cells;
  std::uint64_t seed = 0;
  CorruptFormat format = CorruptFormat::kJpeg;
  std::shared_ptr<const FrostTextures> frost;  // where frost is among the cells
  int jobs = 1;
};

// What there is to do. Bytes and seconds are extrapolated from a few images, of which all cells are
// made in memory; zero where none was asked for or could be read.
struct CorruptPlan {
  std::int64_t images = 0, files = 0;
  std::int64_t there = 0;  // of the files
  double bytes = 0;        // of all files
  double seconds = 0;      // to make those that are missing
};

struct CorruptReport {
  std::int64_t images = 0, files = 0;
  std::int64_t there = 0, made = 0;   // files of earlier runs, and of this one
  std::int64_t bytes = 0;             // of the latter
  std::vector<BadSample> unreadable;  // their files are missing
  bool stopped = false;               // the same again goes on from here
};

// The images of a data set, and where they go: <output>/<corruption>/<severity>/<class>/<file>, of
// 224 x 224 pixels. The bytes of a file depend on the image, its name, the seed, the format and the
// libraries that encode alone.
class CorruptFolders {
 public:
  // Names all files. DataError when two images would become the same file.
  CorruptFolders(const Dataset& dataset, CorruptOptions options);

  // Which files are there is looked up; `samples` images are made to estimate from.
  CorruptPlan plan(int samples) const;

  // Makes what is missing; an empty file is missing too. What a killed run left half-written goes.
  // An image that cannot be read is told to `on_unreadable` and left out. `keep_going` is called on
  // the calling thread with the number of files that are done; false ends the work. ConfigError when
  // the output was made otherwise or another process is at work there; Error when the system
  // refuses.
  CorruptReport run(const std::function<bool(std::int64_t done)>& keep_going = {},
                    const std::function<void(const BadSample&)>& on_unreadable = {}) const;

 private:
  std::string path(const CorruptionCell& cell, const std::string& file) const;
  std::vector<bool> find_finished(std::int64_t& there) const;  // [image, cell]
  void make_folders() const;

  const Dataset& dataset_;
  CorruptOptions options_;
  std::vector<std::string> items_, files_;  // by image: its name, and that of its files
};

}  // namespace dtn
