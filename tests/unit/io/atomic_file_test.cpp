#include "io/atomic_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <fstream>
#include <iterator>
#include <limits>

#include "dtn/core/check.h"
#include "io/json_lines.h"
#include "temp_folder.h"

namespace {

bool has_exchange = true;         // RENAME_EXCHANGE works
int renames_before_failure = -1;  // -1: no rename fails

}  // namespace

// Replaces the C library's function, so that tests can simulate other file systems.
extern "C" int renameat2(int from_dir, const char* from, int to_dir, const char* to,
                         unsigned flags) {
  if (!has_exchange && flags != 0) {
    errno = EINVAL;
    return -1;
  }
  return static_cast<int>(syscall(SYS_renameat2, from_dir, from, to_dir, to, flags));
}
extern "C" int rename(const char* from, const char* to) {
  if (renames_before_failure >= 0 && renames_before_failure-- == 0) {
    errno = EIO;
    return -1;
  }
  return renameat2(AT_FDCWD, from, AT_FDCWD, to, 0);
}

namespace dtn {
namespace {
namespace fs = std::filesystem;

std::string read_text(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::size_t entries_in(const fs::path& folder) {
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

// Limits the size of files to `bytes` for its lifetime. To a writer this looks like a full disk.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    old_handler_ = std::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &old_);
    rlimit limit{bytes, old_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &old_);
    std::signal(SIGXFSZ, old_handler_);
  }

 private:
  rlimit old_{};
  void (*old_handler_)(int);
};

class AtomicFiles : public ::testing::Test {
 protected:
  const test::TempFolder temporary_;
  const fs::path folder_ = temporary_.path();
};

TEST_F(AtomicFiles, CommitReplacesAndDropKeepsOldFile) {
  fs::path path = folder_ / "f";
  write_file_atomic(path, "one");
  EXPECT_EQ(read_text(path), "one");
  {
    AtomicFile file(path);
    file.write("two");
    EXPECT_EQ(read_text(path), "one");
  }
  EXPECT_EQ(read_text(path), "one");
  write_file_atomic(path, "three");
  EXPECT_EQ(read_text(path), "three");
  EXPECT_EQ(entries_in(folder_), 1u);
}

TEST_F(AtomicFiles, ErrorsNamePathAndReason) {
  fs::path path = folder_ / "absent" / "f";
  try {
    write_file_atomic(path, "x");
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find(path.string()), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("No such file or directory"), std::string::npos);
  }
  fs::create_directories(folder_ / "taken" / "inside");
  EXPECT_THROW(write_file_atomic(folder_ / "taken", "x"), Error);
  EXPECT_EQ(entries_in(folder_), 1u);
}

TEST_F(AtomicFiles, FullDiskKeepsOldFileAndLeavesNoTemporary) {
  fs::path path = folder_ / "f";
  write_file_atomic(path, "old");
  {
    FileSizeLimit full(4096);
    EXPECT_THROW(write_file_atomic(path, std::string(10000, 'x')), Error);
  }
  EXPECT_EQ(read_text(path), "old");
  EXPECT_EQ(entries_in(folder_), 1u);
}

TEST_F(AtomicFiles, DirectoryAppearsComplete) {
  fs::path path = folder_ / "d";
  for (const char* text : {"one", "two"}) {
    AtomicDirectory directory(path);
    fs::create_directories(directory.staging() / "sub");
    write_file_atomic(directory.staging() / "sub" / "f", text);
    write_file_atomic(directory.staging() / text, "");
    directory.commit();
    EXPECT_EQ(read_text(path / "sub" / "f"), text);
    EXPECT_TRUE(fs::exists(path / text));
  }
  EXPECT_FALSE(fs::exists(path / "one"));
  {
    AtomicDirectory dropped(path);
    write_file_atomic(dropped.staging() / "three", "");
  }
  EXPECT_FALSE(fs::exists(path / "three"));
  EXPECT_EQ(entries_in(folder_), 1u);
  EXPECT_THROW(AtomicDirectory(folder_ / "absent" / "d"), Error);
}

// Simulates a file system without RENAME_EXCHANGE for its lifetime.
struct WithoutExchange {
  WithoutExchange() { has_exchange = false; }
  ~WithoutExchange() {
    has_exchange = true;
    renames_before_failure = -1;
  }
};

TEST_F(AtomicFiles, DirectoryIsReplacedWithoutExchange) {
  const WithoutExchange file_system;
  const fs::path path = folder_ / "d";
  for (const char* text : {"one", "two", "three"}) {
    AtomicDirectory directory(path);
    write_file_atomic(directory.staging() / "f", text);
    directory.commit();
    EXPECT_EQ(read_text(path / "f"), text);
    EXPECT_EQ(entries_in(folder_), 1u);
  }
}

TEST_F(AtomicFiles, DirectoryThatCannotBeReplacedIsKept) {
  const WithoutExchange file_system;
  const fs::path path = folder_ / "d";
  fs::create_directory(path);
  write_file_atomic(path / "f", "one");
  {
    AtomicDirectory directory(path);
    write_file_atomic(directory.staging() / "f", "two");
    // The first rename finds an existing folder, the second moves it away, the third fails.
    renames_before_failure = 2;
    EXPECT_THROW(directory.commit(), Error);
    renames_before_failure = -1;
  }
  EXPECT_EQ(read_text(path / "f"), "one");
  EXPECT_EQ(entries_in(folder_), 1u);

  // A process that dies between the two renames leaves the earlier folder; no cleanup removes it.
  fs::rename(path, folder_ / "d.old");
  remove_stale_temporaries(folder_);
  EXPECT_EQ(read_text(folder_ / "d.old" / "f"), "one");
}

TEST_F(AtomicFiles, SymlinkIsReplacedAndRelative) {
  fs::create_directory(folder_ / "a");
  fs::create_directory(folder_ / "b");
  for (const char* target : {"a", "b", "b"}) {
    replace_symlink(folder_ / "last", target);
    EXPECT_EQ(fs::read_symlink(folder_ / "last"), target);
  }
  EXPECT_EQ(entries_in(folder_), 3u);
  EXPECT_THROW(replace_symlink(folder_ / "a", "b"), Error);  // a folder is not a link
  EXPECT_EQ(entries_in(folder_), 3u);
}

TEST_F(AtomicFiles, RenamesExistingPathsOnly) {
  fs::create_directory(folder_ / "a");
  rename_durably(folder_ / "a", folder_ / "b");
  EXPECT_TRUE(fs::is_directory(folder_ / "b"));
  EXPECT_THROW(rename_durably(folder_ / "a", folder_ / "c"), Error);
}

TEST_F(AtomicFiles, RemovalAndStaleTemporaries) {
  fs::create_directories(folder_ / "step" / "sub");
  remove_directory_atomic(folder_ / "step");
  EXPECT_EQ(entries_in(folder_), 0u);
  EXPECT_THROW(remove_directory_atomic(folder_ / "step"), Error);
  fs::create_directories(folder_ / "step-1.tmp-123-0" / "sub");
  fs::create_directories(folder_ / ".trash-123-1");
  fs::create_directories(folder_ / "step-1");
  fs::create_symlink("step-1", folder_ / "last.tmp-123-2");
  remove_stale_temporaries(folder_);
  EXPECT_EQ(entries_in(folder_), 1u);
  EXPECT_TRUE(fs::exists(folder_ / "step-1"));
}

TEST_F(AtomicFiles, JsonLinesAreWrittenAtOnce) {
  fs::path path = folder_ / "metrics.jsonl";
  JsonLinesWriter writer(path);
  writer.write({{"step", std::int64_t{1}}, {"loss", 0.1}, {"split", "val"}, {"ok", true}});
  EXPECT_EQ(read_text(path), "{\"step\":1,\"loss\":0.1,\"split\":\"val\",\"ok\":true}\n");
  double infinite = std::numeric_limits<double>::infinity();
  writer.write({{"a", infinite}, {"b", -infinite}, {"c", infinite - infinite}, {"d", nullptr}});
  EXPECT_TRUE(read_text(path).ends_with("\n{\"a\":null,\"b\":null,\"c\":null,\"d\":null}\n"));
  EXPECT_EQ(to_json({{"x", "\xff\n"}}), "{\"x\":\"\xef\xbf\xbd\\n\"}");
  // A second writer appends.
  JsonLinesWriter(path).write({{"step", std::int64_t{3}}});
  EXPECT_TRUE(read_text(path).ends_with("}\n{\"step\":3}\n"));
}

TEST_F(AtomicFiles, JsonLinesResumeDropsLaterAndTornLines) {
  fs::path path = folder_ / "metrics.jsonl";
  std::string kept = "{\"step\":10,\"loss\":1}\n{\"note\":\"no step\"}\n{\"step\":20}\n";
  std::ofstream(path) << "{\"step\":10,\"loss\":1}\n{\"note\":\"no step\"}\n{\"step\":30}\n"
                      << "{\"step\":20}\n{\"step\":1\n\n{\"step\":21}\n{\"step\":2}";
  {
    JsonLinesWriter writer = JsonLinesWriter::open_for_resume(path, 20);
    EXPECT_EQ(read_text(path), kept);
    writer.write({{"step", std::int64_t{21}}});
  }
  EXPECT_EQ(read_text(path), kept + "{\"step\":21}\n");
  auto again = JsonLinesWriter::open_for_resume(path, 21);
  EXPECT_EQ(read_text(path), kept + "{\"step\":21}\n");
  EXPECT_EQ(entries_in(folder_), 1u);
  auto fresh = JsonLinesWriter::open_for_resume(folder_ / "new.jsonl", 5);
  EXPECT_EQ(read_text(folder_ / "new.jsonl"), "");
}

TEST_F(AtomicFiles, JsonLinesResumeDropsEvaluationsToBeRepeated) {
  fs::path path = folder_ / "metrics.jsonl";
  std::string early = "{\"step\":10,\"split\":\"val\"}\n{\"step\":20,\"loss\":1}\n";
  std::string owed = "{\"step\":20,\"split\":\"val\"}\n";
  std::ofstream(path) << early + owed + "{\"step\":21}\n";
  JsonLinesWriter::open_for_resume(path, 20, 20);
  EXPECT_EQ(read_text(path), early + owed);
  JsonLinesWriter::open_for_resume(path, 20, 10);
  EXPECT_EQ(read_text(path), early);
}

TEST_F(AtomicFiles, JsonLinesStayIntactOnFullDisk) {
  fs::path path = folder_ / "metrics.jsonl";
  JsonLinesWriter writer(path);
  writer.write({{"step", std::int64_t{1}}});
  {
    FileSizeLimit full(20);
    EXPECT_THROW(writer.write({{"text", std::string(100, 'x')}}), Error);
  }
  EXPECT_EQ(read_text(path), "{\"step\":1}\n");
  writer.write({{"step", std::int64_t{2}}});
  EXPECT_EQ(read_text(path), "{\"step\":1}\n{\"step\":2}\n");
}

}  // namespace
}  // namespace dtn
