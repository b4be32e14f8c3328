#include "io/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/format.h"
#include "dtn/core/check.h"

namespace dtn {
namespace {

class Descriptor {
 public:
  // Non-blocking, so that opening a named pipe by mistake does not wait for a writer.
  explicit Descriptor(const std::string& path)
      : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

}  // namespace

void fail_to_read(const std::string& name, const std::string& reason) {
  throw DataError(cat("cannot read ", name, ": ", reason));
}

void read_file_into(const std::string& path, std::vector<std::byte>& out, std::int64_t max_bytes) {
  Descriptor file(path);
  if (file.get() < 0) fail_to_read(path, std::strerror(errno));
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) fail_to_read(path, std::strerror(errno));
  if (!S_ISREG(status.st_mode)) fail_to_read(path, "it is not a regular file");
  if (status.st_size > max_bytes)
    fail_to_read(
        path, cat("it has ", bytes_text(static_cast<double>(status.st_size)), ", more than the ",
                  bytes_text(static_cast<double>(max_bytes)), " allowed for a file of its kind"));
  out.resize(static_cast<std::size_t>(status.st_size));
  std::size_t done = 0;
  while (done < out.size()) {
    const ssize_t n = ::read(file.get(), out.data() + done, out.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_to_read(path, std::strerror(errno));
    if (n == 0) fail_to_read(path, cat("it shrank while it was read, to ", done, " bytes"));
    done += static_cast<std::size_t>(n);
  }
}

std::vector<std::byte> read_file(const std::string& path, std::int64_t max_bytes) {
  std::vector<std::byte> bytes;
  read_file_into(path, bytes, max_bytes);
  return bytes;
}

}  // namespace dtn
