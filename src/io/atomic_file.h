// Files and folders that appear whole or not at all, whatever happens to the process or the
// machine: written under a temporary name beside the final one, synced, renamed, and the parent
// synced. All throw Error naming the path and the system's reason; the temporary is then removed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

namespace dtn {

// One file. Dropped without commit(), it leaves nothing behind and an older file untouched.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  // Over what was written before; the next write() goes on at the end.
  void rewrite(std::uint64_t offset, std::string_view text);
  // Waits for the disk, so that commit() will not have to.
  void sync();
  void commit();
  // Without waiting for the disk: after a kill the file is whole or absent as ever, but after a power
  // failure it may be there and empty. For millions of files that can be made again.
  void commit_unsynced();

 private:
  void take_name();

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int fd_ = -1;
};

void write_file_atomic(const std::filesystem::path& path, std::string_view content);

// A folder. Fill staging(), then commit(): everything in it is synced and it takes its final name.
// An existing folder of that name is exchanged for the new one in a single step, then deleted.
class AtomicDirectory {
 public:
  explicit AtomicDirectory(const std::filesystem::path& path);
  ~AtomicDirectory();
  AtomicDirectory(const AtomicDirectory&) = delete;
  AtomicDirectory& operator=(const AtomicDirectory&) = delete;

  const std::filesystem::path& staging() const { return staging_; }
  void commit();

 private:
  std::filesystem::path path_;
  std::filesystem::path staging_;
};

// Points the symbolic link `link` at `target` (kept as given, so usually relative), replacing an
// older link in a single step.
void replace_symlink(const std::filesystem::path& link, const std::filesystem::path& target);

// Gives a file or a folder another name in the same folder, durably. No folder may have that name.
void rename_durably(const std::filesystem::path& from, const std::filesystem::path& to);

// Deletes a folder; it leaves its name in a single step, before its content goes.
void remove_directory_atomic(const std::filesystem::path& path);

// Deletes what a killed process left in `folder`: temporaries of the functions above. Nobody else
// may be writing there.
void remove_stale_temporaries(const std::filesystem::path& folder);

// Makes the entries of `folder` durable.
void sync_directory(const std::filesystem::path& folder);

}  // namespace dtn
